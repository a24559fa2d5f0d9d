"""Products, windows, normalisations, losses, recurrent layers, attention, resized images."""

from __future__ import annotations

from typing import Any

import torch
from tests.torch.frontend.cases import case, drawn, integers
from torch.nn import functional

_IMAGE = drawn(2, 4, 7, 6)
_CHANNELS = [drawn(4, seed=n, low=0.5, high=1.5) for n in range(4)]
_CONVOLUTIONS: dict[str, Any] = {
    "plain": (drawn(6, 4, 3, 3, seed=1), {}),
    "strided": (drawn(6, 4, 3, 3, seed=1), {"stride": 2, "padding": 1}),
    "dilated": (drawn(6, 4, 3, 3, seed=1), {"dilation": 2, "padding": (2, 1)}),
    "grouped": (drawn(8, 2, 3, 3, seed=1), {"groups": 2}),
    "same": (drawn(6, 4, 3, 3, seed=1), {"padding": "same"}),
    "valid": (drawn(6, 4, 2, 3, seed=1), {"padding": "valid"}),
}
_TRANSPOSED: dict[str, Any] = {
    "plain": (drawn(4, 6, 3, 3, seed=1), {}),
    "strided": (drawn(4, 6, 3, 3, seed=1), {"stride": 2, "padding": 1, "output_padding": 1}),
    "grouped": (drawn(4, 3, 3, 3, seed=1), {"groups": 2}),
}
_SCORES, _LABELS = drawn(5, 4), integers(5, high=4)
_IGNORED = torch.tensor([0, -100, 3, 1, 1])
_WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.3])
_P, _Q = drawn(5, 4, low=0.1, high=0.9), drawn(5, 4, seed=1, low=0.1, high=0.9)
_SIGNS = torch.tensor([1.0, -1, 1, -1, -1])
_REDUCTIONS = ("mean", "sum", "none")
_QUERY, _KEY, _VALUE = drawn(2, 3, 4, 6), drawn(2, 3, 5, 6, seed=1), drawn(2, 3, 5, 6, seed=2)
_MASK = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 0, 1], [1] * 5, [0, 1, 1, 1, 0]]).bool()


def _recurrent(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(3, 4, **options)
    weights = [p.detach().clone() for p in layer.parameters()]
    kernel = getattr(torch, layer.mode.lower())
    is_batch_first = layer.batch_first
    settings = (layer.bias, layer.num_layers, 0.0, False, layer.bidirectional, is_batch_first)

    def function(x, *params):
        n_batch = x.shape[0 if is_batch_first else 1]
        state = torch.full((layer.num_layers * (1 + layer.bidirectional), n_batch, 4), 0.25)
        return kernel(x, (state, state * 2) if kind == "LSTM" else state, list(params), *settings)

    return function, weights


def _layer_case(name: str, kind: str, **options: Any) -> Any:
    function, weights = _recurrent(kind, **options)
    return case(name, function, drawn(5, 2, 3), *weights)


_GRID = drawn(2, 3, 4, 2, low=-1.1, high=1.1)


def _soft_margin(x, reduction):
    return functional.soft_margin_loss(x, _SIGNS, reduction=reduction)


CASES = [
    case("mm", torch.mm, drawn(3, 4), drawn(4, 5)),
    case("bmm", torch.bmm, drawn(2, 3, 4), drawn(2, 4, 5)),
    case("matmul", torch.matmul, drawn(2, 3, 4), drawn(4, 5)),
    case("matmul vector", torch.matmul, drawn(2, 3, 4), drawn(4)),
    case("matmul broadcast", torch.matmul, drawn(2, 1, 3, 4), drawn(3, 4, 2)),
    case("mv", torch.mv, drawn(3, 4), drawn(4)),
    case("dot", torch.dot, drawn(4), drawn(4, seed=1)),
    case("vdot", torch.vdot, drawn(4), drawn(4, seed=1)),
    case("outer", torch.outer, drawn(3), drawn(4)),
    case(
        "addmm",
        lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2),
        drawn(5),
        drawn(3, 4),
        drawn(4, 5),
    ),
    case("addmv", torch.addmv, drawn(3), drawn(3, 4), drawn(4)),
    case("addr", torch.addr, drawn(3, 4), drawn(3), drawn(4)),
    case("addbmm", torch.addbmm, drawn(3, 5), drawn(2, 3, 4), drawn(2, 4, 5)),
    *(
        case(
            f"{name} without {what}",
            lambda *operands, name=name, numbers=numbers: getattr(torch, name)(
                *operands, **numbers
            ),
            *(torch.full_like(x, torch.nan) if n in where else x for n, x in enumerate(operands)),
            has_gradient=False,
        )
        for name, operands in (
            ("addmm", (drawn(3, 5), drawn(3, 4), drawn(4, 5))),
            ("addmv", (drawn(3), drawn(3, 4), drawn(4))),
            ("addbmm", (drawn(3, 5), drawn(2, 3, 4), drawn(2, 4, 5))),
        )
        for what, numbers, where in (
            ("bias", {"beta": 0, "alpha": 0.5}, (0,)),
            ("product", {"beta": 0.5, "alpha": 0}, (1, 2)),
            ("either", {"beta": 0, "alpha": 0}, (0, 1, 2)),
        )
    ),
    case(
        "baddbmm",
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2),
        drawn(2, 3, 5),
        drawn(2, 3, 4),
        drawn(2, 4, 5),
    ),
    case("linear", functional.linear, drawn(3, 4), drawn(5, 4), drawn(5)),
    case("linear deep", functional.linear, drawn(2, 3, 4), drawn(5, 4), drawn(5)),
    case("linear without bias", functional.linear, drawn(2, 3, 4), drawn(5, 4)),
    case("bilinear", functional.bilinear, drawn(2, 3, 4), drawn(2, 3, 5), drawn(6, 4, 5), drawn(6)),
    case("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), drawn(2, 3, 4), drawn(2, 5, 4)),
    case("einsum trace", lambda a: torch.einsum("ii->i", a), drawn(4, 4)),
    case("tensordot", lambda a, b: torch.tensordot(a, b, 2), drawn(2, 3, 4), drawn(3, 4, 5)),
    case("kron", torch.kron, drawn(2, 3), drawn(3, 2)),
    case("cross", lambda a, b: torch.cross(a, b, dim=1), drawn(4, 3), drawn(4, 3, seed=1)),
    case("linalg_cross", torch.linalg.cross, drawn(4, 3), drawn(4, 3, seed=1)),
    *(
        case(
            f"cdist {p:g}",
            lambda a, b, p=p: torch.cdist(a, b, p=p),
            drawn(2, 3, 4),
            drawn(2, 5, 4, seed=1),
            tolerance=1e-4,
        )
        for p in (1.0, 2.0, 3.0, float("inf"))
    ),
    case("pairwise_distance", functional.pairwise_distance, drawn(3, 4), drawn(3, 4, seed=1)),
    case("cosine_similarity", functional.cosine_similarity, drawn(3, 4), drawn(3, 4, seed=1)),
    case("tril", torch.tril, drawn(4, 5)),
    case("triu", lambda x: torch.triu(x, 1), drawn(2, 4, 5)),
    case("tril bool", torch.tril, integers(4, 4, high=2).bool()),
    case(
        "_weight_norm", lambda v, g: torch._weight_norm(v, g, 0), drawn(4, 3), drawn(4, 1, low=0.5)
    ),
    *(
        case(f"conv2d {n}", lambda x, w, o=o: functional.conv2d(x, w, **o), _IMAGE, w)
        for n, (w, o) in _CONVOLUTIONS.items()
    ),
    case("conv2d bias", functional.conv2d, _IMAGE, drawn(6, 4, 3, 3), drawn(6)),
    case("conv2d unbatched", functional.conv2d, _IMAGE[0], drawn(6, 4, 3, 3)),
    case(
        "conv1d",
        lambda x, w, b: functional.conv1d(x, w, b, padding=1),
        drawn(2, 4, 9),
        drawn(6, 4, 3),
        drawn(6),
    ),
    case("conv3d", functional.conv3d, drawn(1, 2, 5, 4, 4), drawn(3, 2, 2, 3, 2), drawn(3)),
    *(
        case(
            f"conv_transpose2d {n}",
            lambda x, w, o=o: functional.conv_transpose2d(x, w, **o),
            _IMAGE,
            w,
        )
        for n, (w, o) in _TRANSPOSED.items()
    ),
    case(
        "conv_transpose1d",
        lambda x, w: functional.conv_transpose1d(x, w, stride=2),
        drawn(2, 4, 5),
        drawn(4, 3, 3),
    ),
    case(
        "conv_transpose3d", functional.conv_transpose3d, drawn(1, 2, 3, 3, 3), drawn(2, 3, 2, 2, 2)
    ),
    case("max_pool1d", lambda x: functional.max_pool1d(x, 3, 2, 1), drawn(2, 4, 9)),
    case("max_pool2d", lambda x: functional.max_pool2d(x, 2), _IMAGE),
    case("max_pool2d padded", lambda x: functional.max_pool2d(x, 3, 2, 1), _IMAGE),
    case("max_pool2d ceil", lambda x: functional.max_pool2d(x, 3, 2, ceil_mode=True), _IMAGE),
    case("max_pool2d dilated", lambda x: functional.max_pool2d(x, 2, 1, dilation=2), _IMAGE),
    case(
        "max_pool2d_with_indices",
        lambda x: functional.max_pool2d(x, 2, return_indices=True),
        _IMAGE,
        has_gradient=False,
    ),
    case("max_pool3d", lambda x: functional.max_pool3d(x, 2), drawn(1, 2, 4, 4, 4)),
    case("avg_pool1d", lambda x: functional.avg_pool1d(x, 3, 2), drawn(2, 4, 9)),
    case("avg_pool2d", lambda x: functional.avg_pool2d(x, 3, 2, 1), _IMAGE),
    case(
        "avg_pool2d exclusive",
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        _IMAGE,
    ),
    case("avg_pool2d ceil", lambda x: functional.avg_pool2d(x, 3, 2, ceil_mode=True), _IMAGE),
    case("avg_pool2d divisor", lambda x: functional.avg_pool2d(x, 2, divisor_override=3), _IMAGE),
    case("avg_pool3d", lambda x: functional.avg_pool3d(x, 2), drawn(1, 2, 4, 4, 4)),
    case("adaptive_avg_pool1d", lambda x: functional.adaptive_avg_pool1d(x, 4), drawn(2, 3, 9)),
    case("adaptive_avg_pool2d", lambda x: functional.adaptive_avg_pool2d(x, (1, 1)), _IMAGE),
    case("adaptive_avg_pool2d uneven", lambda x: functional.adaptive_avg_pool2d(x, (3, 4)), _IMAGE),
    case(
        "adaptive_avg_pool3d", lambda x: functional.adaptive_avg_pool3d(x, 2), drawn(1, 2, 4, 5, 4)
    ),
    case("adaptive_max_pool2d", lambda x: functional.adaptive_max_pool2d(x, (3, 3)), _IMAGE),
    case("adaptive_max_pool1d", lambda x: functional.adaptive_max_pool1d(x, 3), drawn(2, 3, 9)),
    case("lp_pool2d", lambda x: functional.lp_pool2d(x, 2, 2), drawn(2, 3, 4, 4, low=0.1)),
    case(
        "batch_norm",
        lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b),
        _IMAGE,
        *_CHANNELS,
        has_gradient=False,
    ),
    case(
        "_native_batch_norm_legit",
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        _IMAGE,
        *_CHANNELS[:2],
    ),
    case(
        "batch_norm rows",
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        drawn(6, 4),
        *_CHANNELS[:2],
    ),
    case(
        "layer_norm",
        lambda x, w, b: functional.layer_norm(x, (4, 5), w, b),
        drawn(2, 3, 4, 5),
        drawn(4, 5),
        drawn(4, 5),
    ),
    case("layer_norm plain", lambda x: functional.layer_norm(x, (5,)), drawn(3, 5)),
    case("rms_norm", lambda x, w: functional.rms_norm(x, (5,), w, 1e-5), drawn(3, 5), drawn(5)),
    case("group_norm", lambda x, w, b: functional.group_norm(x, 2, w, b), _IMAGE, *_CHANNELS[:2]),
    case(
        "group_norm rows",
        lambda x, w, b: functional.group_norm(x, 2, w, b),
        drawn(6, 4),
        *_CHANNELS[:2],
    ),
    case(
        "instance_norm",
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        _IMAGE,
        *_CHANNELS[:2],
    ),
    case("instance_norm plain", functional.instance_norm, _IMAGE),
    case(
        "local_response_norm",
        lambda x: functional.local_response_norm(x, 3),
        _IMAGE,
        tolerance=1e-4,
    ),
    case("normalize", functional.normalize, drawn(3, 5)),
    case("dropout", lambda x: functional.dropout(x, 0.5, training=False), drawn(3, 5)),
    case("feature_dropout", lambda x: functional.dropout2d(x, 0.5, training=False), _IMAGE),
    *(
        case(
            f"{name} {reduction}",
            lambda x, *a, f=function, r=reduction: f(x, *a, reduction=r),
            *args,
        )
        for reduction in _REDUCTIONS
        for name, function, args in (
            (
                "nll_loss_nd",
                lambda x, t, reduction: functional.nll_loss(
                    functional.log_softmax(x, 1), t, reduction=reduction
                ),
                (_SCORES, _LABELS),
            ),
            ("cross_entropy_loss", functional.cross_entropy, (_SCORES, _LABELS)),
            ("mse_loss", functional.mse_loss, (_P, _Q)),
            ("l1_loss", functional.l1_loss, (_P, _Q)),
            ("smooth_l1_loss", functional.smooth_l1_loss, (2 * _SCORES, _Q)),
            ("huber_loss", functional.huber_loss, (2 * _SCORES, _Q)),
            ("binary_cross_entropy", functional.binary_cross_entropy, (_P, _Q)),
            (
                "binary_cross_entropy_with_logits",
                functional.binary_cross_entropy_with_logits,
                (_SCORES, _Q),
            ),
            ("kl_div", functional.kl_div, (_SCORES, _Q)),
            ("poisson_nll_loss", functional.poisson_nll_loss, (_SCORES, _Q)),
            ("hinge_embedding_loss", functional.hinge_embedding_loss, (_SCORES[:, 0], _SIGNS)),
            ("soft_margin_loss", _soft_margin, (_SCORES[:, 0],)),
            (
                "margin_ranking_loss",
                functional.margin_ranking_loss,
                (_SCORES[:, 0], _SCORES[:, 1], _SIGNS),
            ),
            ("cosine_embedding_loss", functional.cosine_embedding_loss, (_P, _Q, _SIGNS)),
            ("triplet_margin_loss", functional.triplet_margin_loss, (_SCORES, _P, _Q)),
            (
                "multilabel_soft_margin_loss",
                functional.multilabel_soft_margin_loss,
                (_SCORES, (_Q > 0.5).float()),
            ),
        )
    ),
    case("cross_entropy_loss ignored", functional.cross_entropy, _SCORES, _IGNORED),
    case(
        "cross_entropy_loss weight",
        lambda x, t: functional.cross_entropy(x, t, _WEIGHT),
        _SCORES,
        _LABELS,
    ),
    case(
        "cross_entropy_loss smooth",
        lambda x, t: functional.cross_entropy(x, t, label_smoothing=0.2),
        _SCORES,
        _IGNORED,
    ),
    case(
        "cross_entropy_loss smooth weight",
        lambda x, t: functional.cross_entropy(x, t, _WEIGHT, label_smoothing=0.2),
        _SCORES,
        _LABELS,
    ),
    case(
        "cross_entropy_loss probabilities",
        lambda x, t: functional.cross_entropy(x, functional.softmax(t, 1)),
        _SCORES,
        _Q,
    ),
    case(
        "cross_entropy_loss image",
        functional.cross_entropy,
        drawn(2, 4, 3, 3),
        integers(2, 3, 3, high=4),
    ),
    case("cross_entropy_loss single", functional.cross_entropy, drawn(4), torch.tensor(2)),
    case(
        "nll_loss_nd ignored",
        lambda x, t: functional.nll_loss(functional.log_softmax(x, 1), t, _WEIGHT, ignore_index=1),
        _SCORES,
        _LABELS,
    ),
    case(
        "kl_div logarithms",
        lambda x, t: functional.kl_div(x, t, reduction="batchmean", log_target=True),
        _SCORES,
        _Q,
    ),
    case(
        "poisson_nll_loss full",
        lambda x, t: functional.poisson_nll_loss(x, t, log_input=False, full=True),
        _P,
        4 * _Q.detach(),
        has_gradient=False,
    ),
    case(
        "binary_cross_entropy_with_logits weights",
        lambda x, t: functional.binary_cross_entropy_with_logits(x, t, pos_weight=_WEIGHT),
        9 * _SCORES,
        _Q,
    ),
    *(
        case(
            f"ctc_loss {reduction}",
            lambda x, t, a, b, r=reduction: functional.ctc_loss(
                functional.log_softmax(x, 2), t, a, b, reduction=r
            ),
            drawn(6, 2, 4),
            integers(2, 3, low=1, high=4),
            torch.tensor([6, 5]),
            torch.tensor([3, 2]),
        )
        for reduction in _REDUCTIONS
    ),
    case(
        "ctc_loss joined",
        lambda x, t: functional.ctc_loss(
            functional.log_softmax(x, 2), t, (6, 5), (3, 2), reduction="sum"
        ),
        drawn(6, 2, 4),
        integers(5, low=1, high=4),
    ),
    _layer_case("lstm", "LSTM"),
    _layer_case("lstm two layers", "LSTM", num_layers=2, bidirectional=True, batch_first=True),
    _layer_case("lstm without bias", "LSTM", bias=False),
    _layer_case("gru", "GRU"),
    _layer_case("gru bidirectional", "GRU", bidirectional=True, num_layers=2),
    _layer_case("rnn_tanh", "RNN"),
    _layer_case("rnn_relu", "RNN", nonlinearity="relu"),
    case(
        "scaled_dot_product_attention",
        functional.scaled_dot_product_attention,
        _QUERY,
        _KEY,
        _VALUE,
    ),
    case(
        "scaled_dot_product_attention causal",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        _QUERY,
        _KEY,
        _VALUE,
    ),
    case(
        "scaled_dot_product_attention mask",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, _MASK),
        _QUERY,
        _KEY,
        _VALUE,
    ),
    case(
        "scaled_dot_product_attention bias",
        functional.scaled_dot_product_attention,
        _QUERY,
        _KEY,
        _VALUE,
        drawn(2, 1, 4, 5),
    ),
    case(
        "scaled_dot_product_attention scale",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.3),
        _QUERY,
        _KEY,
        _VALUE,
    ),
    case(
        "scaled_dot_product_attention three",
        functional.scaled_dot_product_attention,
        _QUERY[0],
        _KEY[0],
        _VALUE[0],
    ),
    case(
        "scaled_dot_product_attention groups",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        drawn(2, 6, 4, 6),
        _KEY,
        _VALUE,
    ),
    *(
        case(f"upsample_{n}", lambda x, o=o: functional.interpolate(x, **o), x)
        for n, x, o in (
            ("nearest1d", drawn(1, 2, 5), {"size": 8}),
            ("nearest2d", drawn(1, 2, 4, 3), {"scale_factor": 2}),
            ("nearest2d down", drawn(1, 2, 6, 7), {"size": (4, 3)}),
            ("nearest3d", drawn(1, 1, 2, 3, 2), {"scale_factor": 2}),
            ("linear1d", drawn(1, 2, 5), {"size": 8, "mode": "linear"}),
            ("bilinear2d", drawn(1, 2, 4, 3), {"scale_factor": 2, "mode": "bilinear"}),
            (
                "bilinear2d corners",
                drawn(1, 2, 4, 3),
                {"size": (7, 5), "mode": "bilinear", "align_corners": True},
            ),
            ("bilinear2d fraction", drawn(1, 2, 4, 3), {"scale_factor": 1.7, "mode": "bilinear"}),
            ("bicubic2d", drawn(1, 2, 4, 5), {"scale_factor": 2, "mode": "bicubic"}),
            ("trilinear3d", drawn(1, 1, 2, 3, 2), {"scale_factor": 2, "mode": "trilinear"}),
        )
    ),
    case(
        "_upsample_nearest_exact2d",
        lambda x: functional.interpolate(x, size=(5, 7), mode="nearest-exact"),
        drawn(1, 2, 4, 3),
    ),
    case(
        "grid_sampler",
        lambda x, g: functional.grid_sample(x, g, align_corners=False),
        _IMAGE,
        _GRID,
        has_gradient=False,
    ),
    case(
        "grid_sampler corners",
        lambda x, g: functional.grid_sample(x, g, "nearest", "border", True),
        _IMAGE,
        _GRID,
        has_gradient=False,
    ),
    case(
        "affine_grid_generator",
        lambda t: functional.affine_grid(t, (2, 1, 3, 4), align_corners=False),
        drawn(2, 2, 3),
    ),
]
