"""Shapes, slices, joins, reductions, sorting, indexing, tensors that are made of nothing."""

from __future__ import annotations

import torch
from tests.torch.frontend.cases import case, drawn, integers
from torch.nn import functional

_X, _Y = drawn(3, 4, 5), drawn(3, 4, 5, seed=1)
_M = drawn(4, 5)
_I = integers(3, 4, low=-6, high=7)
_B = integers(3, 4, high=2).bool()
_ROWS = torch.tensor([2, 0, 0, -1])
_PLACES = integers(2, 4, 5, high=3)
_SOURCE = drawn(2, 4, 5, seed=2)
_SQUARE = drawn(4, 6)


def _written(x, y):
    x = x.clone()
    x[:, 1] = y[:, 0]
    x[0, ::2] = 3.0
    x[..., -1] += 1
    return x


def _columns_written(x, i, y):
    x = x.clone()
    x[:, i] = y[:, :2]
    return x


CASES = [
    case("view", lambda x: x.view(12, 5) * 2, _X),
    case("reshape", lambda x: x.transpose(0, 1).reshape(4, -1), _X),
    case("flatten", lambda x: x.flatten(1), _X),
    case("unflatten", lambda x: x.unflatten(1, (2, 2)), _X),
    case("squeeze", lambda x: x[:, :1].squeeze(1), _X),
    case("unsqueeze", lambda x: x.unsqueeze(-2), _X),
    case("expand", lambda x: x[:, None].expand(3, 2, 4, 5), _X),
    case("expand_as", lambda x, y: x[:1].expand_as(y), _X, _Y),
    case("broadcast_to", lambda x: torch.broadcast_to(x, (2, 4, 5)), _M),
    case("permute", lambda x: x.permute(2, 0, -2), _X),
    case("transpose", lambda x: x.transpose(-1, 0), _X),
    case("t", lambda x: x.t(), _M),
    case("numpy_T", lambda x: x.T, _M),
    case("adjoint", lambda x: x.mT, _X),
    case("movedim", lambda x: x.movedim(0, -1), _X),
    case("select", lambda x: x[1], _X),
    case("slice", lambda x: x[1:, ::2, -3:-1], _X),
    case("narrow", lambda x: x.narrow(1, 1, 2), _X),
    case("split", lambda x: torch.split(x, 2, 2), _X),
    case("split_with_sizes", lambda x: torch.split(x, [1, 3, 1], -1), _X),
    case("chunk", lambda x: torch.chunk(x, 3, 1), _X),
    case("tensor_split", lambda x: torch.tensor_split(x, 3, 1), _X),
    case("tensor_split places", lambda x: torch.tensor_split(x, (1, 4), 2), _X),
    case("unbind", lambda x: torch.unbind(x, 1), _X),
    case("cat", lambda x, y: torch.cat([x, y[:1]]), _X, _Y),
    case("cat types", lambda x, y: torch.cat([x, y], 1), _I, _M[:3, :2]),
    case("cat empty", lambda x: torch.cat([torch.zeros(0), x], 1), _M),
    case("stack", lambda x, y: torch.stack([x, y], -1), _X, _Y),
    case("hstack", lambda x, y: torch.hstack([x, y]), _M, _M + 1),
    case("repeat", lambda x: x.repeat(2, 1, 3), _M),
    case("tile", lambda x: torch.tile(x, (2, 2)), _M),
    case("repeat_interleave", lambda x: torch.repeat_interleave(x, 2, 1), _M),
    case("roll", lambda x: torch.roll(x, (1, -2), (0, 2)), _X),
    case("roll flat", lambda x: torch.roll(x, 3), _M),
    case("rot90", torch.rot90, _M),
    case("flip", lambda x: torch.flip(x, (0, -1)), _X),
    case("fliplr", torch.fliplr, _M),
    case("constant_pad_nd", lambda x: functional.pad(x, (1, 2, 0, -1), value=0.5), _X),
    *(
        case(f"{mode} pad {x.dim() - 2}", lambda x, m=mode, p=pad: functional.pad(x, p, mode=m), x)
        for mode in ("reflect", "replicate", "circular")
        for x, pad in ((drawn(1, 2, 6), (2, 1)), (drawn(1, 2, 5, 6), (1, 2, 2, 1)))
    ),
    case(
        "replicate pad volume",
        lambda x: functional.pad(x, (1, 1, 0, 1, 1, 0), mode="replicate"),
        drawn(1, 1, 3, 3, 3),
    ),
    case("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="xy"), drawn(3), drawn(4)),
    case("cartesian_prod", torch.cartesian_prod, drawn(3), drawn(4)),
    case("pixel_shuffle", lambda x: functional.pixel_shuffle(x, 2), drawn(1, 8, 2, 3)),
    case("pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), drawn(1, 2, 4, 6)),
    case("channel_shuffle", lambda x: functional.channel_shuffle(x, 2), drawn(1, 6, 2, 2)),
    case("unfold", lambda x: x.unfold(1, 3, 1), _X),
    case("im2col", lambda x: functional.unfold(x, (2, 3), padding=1, stride=2), drawn(1, 2, 5, 6)),
    case("col2im", lambda x: functional.fold(x, (4, 5), (2, 2)), drawn(1, 8, 12)),
    case("diagonal", lambda x: torch.diagonal(x, 1), _SQUARE),
    case("diagonal below", lambda x: torch.diagonal(x, -2, 0, 2), drawn(5, 2, 4)),
    case("diag_embed", torch.diag_embed, _M),
    case("trace", torch.trace, drawn(4, 4)),
    case("select_scatter", _written, _X, _Y),
    case("slice_scatter", lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 0, 4, 2), _X, _Y),
    case("diff", torch.diff, _M),
    case("sum", lambda x: x.sum(), _X),
    case("sum dims", lambda x: x.sum((0, -1), keepdim=True), _X),
    case("sum bool", lambda x: x.sum(1), _B),
    case("mean", lambda x: x.mean(1), _X),
    case("mean all", torch.mean, _X),
    case("prod", lambda x: x.prod(1), _X),
    case("prod all", lambda x: x[0, :2].prod(), _X),
    case("amax", lambda x: x.amax((0, 2)), _X),
    case("amin", lambda x: x.amin(1, keepdim=True), _X),
    case("aminmax", lambda x: torch.aminmax(x, dim=1), _X, has_gradient=False),
    case("max", torch.max, _X),
    case("max dim", lambda x: x.max(1), _X),
    case("min", torch.min, _X),
    case("min dim", lambda x: x.min(-1, keepdim=True), _X),
    case("argmax", lambda x: x.argmax(1), _X),
    case("argmax all", torch.argmax, _X),
    case("argmin", lambda x: x.argmin(-1, keepdim=True), _X),
    case("any", lambda x: x.any(1), _B),
    case("any all", torch.any, _B),
    case("all", lambda x: x.all(0), _B),
    case("all numbers", lambda x: torch.all(x > -9), _I),
    case("logsumexp", lambda x: x.logsumexp(1), _X),
    case("logcumsumexp", lambda x: x.logcumsumexp(1), _X),
    *(case(f"norm {p}", lambda x, p=p: torch.norm(x, p, dim=1), _X) for p in (1, 2, 3, "fro")),
    case("norm inf", lambda x: torch.norm(x, float("inf"), dim=1), _X),
    case("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 2, (0, 1)), _X),
    case("linalg_matrix_norm", lambda x: torch.linalg.matrix_norm(x, 1), _X),
    case("frobenius_norm", torch.linalg.matrix_norm, _X),
    case("var", lambda x: x.var(1), _X),
    case("var biased", lambda x: x.var(unbiased=False), _X),
    case("std", lambda x: x.std((0, 1)), _X),
    case("std_mean", lambda x: torch.std_mean(x, 1), _X),
    case("var_mean", lambda x: torch.var_mean(x, (0, 2), correction=0), _X),
    case("count_nonzero", lambda x: torch.count_nonzero(x, 1), _I),
    case("nansum", torch.nansum, torch.tensor([1.0, float("nan"), 2.0]), has_gradient=False),
    case("median", torch.median, drawn(3, 5), has_gradient=False),
    case("median dim", lambda x: x.median(1), _X),
    case("kthvalue", lambda x: x.kthvalue(2, 1), _X),
    case("cumsum", lambda x: x.cumsum(1), _X),
    case("cumsum bool", lambda x: x.cumsum(1), _B),
    case("cumprod", lambda x: x.cumprod(1), _X, has_gradient=False),
    case("sort", lambda x: torch.sort(x, 1, descending=True), _X),
    case("argsort", lambda x: torch.argsort(x, -1), _X),
    case("topk", lambda x: torch.topk(x, 2, 1), _X),
    case("topk smallest", lambda x: torch.topk(x, 3, largest=False), _X),
    case("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), _M, tolerance=1e-4),
    case("index", lambda x, i: x[i], _X, _ROWS[:3]),
    case("index middle", lambda x, i: x[:, i, 1:], _X, _ROWS),
    case(
        "index two", lambda x, i, j: x[i, j], _X, torch.tensor([0, 2, -1]), torch.tensor([1, 3, 0])
    ),
    case(
        "index two apart",
        lambda x, i, j: x[i, :, j],
        _X,
        torch.tensor([0, 2]),
        torch.tensor([[1], [4]]),
    ),
    case(
        "index last two", lambda x, i, j: x[:, i, j], _X, torch.tensor([0, 2]), torch.tensor([4, 4])
    ),
    case("index_put", lambda x, i, y: x.index_put((i,), y[:2]), _X, torch.tensor([2, 0]), _Y),
    case(
        "index_put accumulate",
        lambda x, i, y: x.index_put((i,), y, accumulate=True),
        _X,
        torch.tensor([2, 0, 2]),
        _Y,
    ),
    case(
        "index_put columns",
        _columns_written,
        _X,
        torch.tensor([3, 1]),
        _Y,
    ),
    case("index_put mask", lambda x, m: x.index_put((m,), torch.tensor(2.0)), _X[..., 0], _B),
    case("index_select", lambda x, i: torch.index_select(x, 1, i), _X, torch.tensor([3, 0, 0])),
    case(
        "index_add", lambda x, i, y: x.index_add(0, i, y, alpha=2), _X, torch.tensor([2, 0, 2]), _Y
    ),
    case("index_copy", lambda x, i, y: x.index_copy(0, i, y[:2]), _X, torch.tensor([2, 0]), _Y),
    case("index_fill", lambda x, i: x.index_fill(1, i, 0.5), _X, torch.tensor([3, 1])),
    case(
        "index_reduce",
        lambda x, i, y: x.index_reduce(0, i, y, "amax"),
        _X,
        torch.tensor([2, 0, 2]),
        _Y,
        has_gradient=False,
    ),
    case("gather", lambda x, i: torch.gather(x, 0, i), _X, _PLACES),
    case("gather less", lambda x, i: torch.gather(x, 1, i), _X, integers(2, 3, 4, high=4)),
    case("take", torch.take, _M, integers(2, 3, high=20)),
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), _M, integers(4, 2, high=5)),
    case(
        "scatter",
        lambda x, i, s: x.scatter(0, i, s),
        _X,
        torch.argsort(drawn(3, 4, 5), 0)[:2],
        _SOURCE,
    ),
    case("scatter value", lambda x, i: x.scatter(1, i, 2.0), _M, integers(4, 1, high=5)),
    case(
        "scatter reduce",
        lambda x, i: x.scatter(1, i, 2.0, reduce="multiply"),
        _M,
        integers(4, 1, high=5),
        has_gradient=False,
    ),
    case("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), _X, _PLACES, _SOURCE),
    *(
        case(
            f"scatter_reduce {r}",
            lambda x, i, s, r=r: x.scatter_reduce(0, i, s, r),
            _X,
            _PLACES,
            _SOURCE,
            has_gradient=r in ("sum", "mean"),
        )
        for r in ("sum", "mean", "prod", "amax", "amin")
    ),
    *(
        case(
            f"scatter_reduce {r} without self",
            lambda x, i, s, r=r: x.scatter_reduce(0, i, s, r, include_self=False),
            _X,
            _PLACES,
            _SOURCE,
            has_gradient=False,
        )
        for r in ("sum", "mean", "prod", "amax", "amin")
    ),
    case("embedding", lambda w, i: functional.embedding(i, w), _M, integers(2, 3, high=4)),
    case(
        "embedding padding",
        lambda w, i: functional.embedding(i, w, padding_idx=1),
        _M,
        integers(2, 3, high=4),
    ),
    case(
        "_embedding_bag",
        lambda w, i: functional.embedding_bag(i, w, mode="sum"),
        _M,
        integers(3, 4, high=4),
    ),
    case(
        "_embedding_bag mean",
        lambda w, i, o: functional.embedding_bag(i, w, o),
        _M,
        integers(6, high=4),
        torch.tensor([0, 2, 2]),
    ),
    case(
        "_embedding_bag max",
        lambda w, i, o: functional.embedding_bag(i, w, o, mode="max"),
        _M,
        integers(6, high=4),
        torch.tensor([0, 2]),
        has_gradient=False,
    ),
    case("one_hot", lambda i: functional.one_hot(i, 6), integers(2, 3)),
    case("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])), _M),
    case("bucketize promoted", lambda x: torch.bucketize(x, torch.tensor([-1, 0, 1])), _M),
    case(
        "searchsorted promoted",
        torch.searchsorted,
        torch.tensor([[-1, 0, 1]] * 4),
        _M,
        has_gradient=False,
    ),
    case(
        "bucketize right",
        lambda x: torch.bucketize(x, torch.tensor([1, 3]), right=True),
        integers(4),
    ),
    case(
        "searchsorted",
        torch.searchsorted,
        torch.tensor([[0.0, 0.5, 1.0]] * 4),
        _M,
        has_gradient=False,
    ),
    case("full", lambda x: torch.full((2, 3), 1.5) + x.sum(), _M),
    case("full_like", lambda x: torch.full_like(x, 2) * x, _M),
    case("zeros_like", lambda x: torch.zeros_like(x) + x, _M),
    case("new_ones", lambda x: x.new_ones(5) + x, _M),
    case("arange", lambda x: torch.arange(1, 10, 2) + x, _M),
    case("linspace", lambda x: torch.linspace(0, 1, 5) + x, _M),
    case("eye", lambda x: torch.eye(4, 5) * x, _M),
    case("tril_indices", lambda x: x[tuple(torch.tril_indices(4, 5))], _M),
    case("fill_", lambda x: x.clone().fill_(2.0) * x, _M),
    case("zero_", lambda x: x.clone().zero_() + x, _M),
]
