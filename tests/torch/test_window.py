"""Gradients of convolutions and pools, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch.compared import Case, agree, case, drawn, ids, single
from torch.nn import functional

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _padded(x: torch.Tensor, pads: list[int], value: float = 0.0) -> torch.Tensor:
    """Return x with ONNX's padding, which states all starts before all ends."""
    n = len(pads) // 2
    flat = [p for d in reversed(range(n)) for p in (pads[d], pads[d + n])]
    return functional.pad(x, flat, value=value)


def _convolution(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    bias: bool = False,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    group: int = 1,
) -> Case:
    rank = len(x) - 2
    pads, strides = pads or [0] * 2 * rank, strides or [1] * rank
    dilations = dilations or [1] * rank

    def reference(x, w, b=None):
        function = _CONVOLUTIONS[rank]
        return function(_padded(x, pads), w, b, stride=strides, dilation=dilations, groups=group)

    return single(
        name,
        "Conv",
        {"x": x, "w": w, **({"b": (w[0],)} if bias else {})},
        reference,
        kernel_shape=list(w[2:]),
        pads=pads,
        strides=strides,
        dilations=dilations,
        group=group,
    )


_OF_CONVOLUTIONS = [
    _convolution("1d", (2, 3, 12), (5, 3, 3)),
    _convolution("1d-bias-stride", (2, 3, 13), (5, 3, 4), bias=True, strides=[3], pads=[2, 1]),
    _convolution("1d-groups-dilation", (2, 4, 15), (6, 2, 3), group=2, dilations=[2]),
    _convolution("1d-depthwise", (2, 4, 12), (4, 1, 3), group=4, pads=[1, 1], bias=True),
    _convolution("2d", (2, 3, 8, 7), (5, 3, 3, 3)),
    _convolution("2d-bias", (2, 3, 8, 7), (5, 3, 3, 3), bias=True, pads=[1, 1, 1, 1]),
    _convolution("2d-1x1", (2, 3, 5, 5), (6, 3, 1, 1), bias=True),
    _convolution("2d-1x1-stride", (2, 3, 6, 5), (6, 3, 1, 1), strides=[2, 2]),
    _convolution("2d-stride", (2, 3, 9, 8), (5, 3, 3, 2), strides=[2, 3]),
    _convolution("2d-stride-rest", (1, 2, 10, 10), (3, 2, 3, 3), strides=[4, 3]),
    _convolution("2d-dilation", (1, 2, 9, 10), (3, 2, 3, 3), dilations=[2, 3]),
    _convolution("2d-asymmetric", (1, 2, 6, 7), (3, 2, 3, 4), pads=[0, 2, 1, 3]),
    _convolution(
        "2d-all",
        (2, 4, 11, 10),
        (6, 2, 3, 2),
        bias=True,
        group=2,
        strides=[2, 3],
        dilations=[2, 1],
        pads=[1, 0, 2, 1],
    ),
    _convolution("2d-depthwise", (2, 6, 7, 7), (6, 1, 3, 3), group=6, pads=[1, 1, 1, 1]),
    _convolution(
        "2d-depthwise-multiplier",
        (1, 3, 8, 8),
        (6, 1, 3, 3),
        group=3,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    _convolution("2d-whole", (3, 2, 4, 5), (6, 2, 4, 5), bias=True),
    _convolution("2d-first-layer", (2, 3, 16, 16), (8, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    _convolution("3d", (1, 2, 5, 6, 5), (3, 2, 3, 3, 2)),
    _convolution(
        "3d-all",
        (1, 4, 6, 7, 6),
        (4, 2, 2, 3, 3),
        bias=True,
        group=2,
        strides=[2, 1, 2],
        dilations=[1, 2, 1],
        pads=[1, 0, 1, 0, 1, 2],
    ),
    single(
        "same-upper",
        "Conv",
        {"x": (1, 2, 6, 7), "w": (3, 2, 3, 4)},
        lambda x, w: functional.conv2d(_padded(x, [1, 1, 1, 2]), w),
        auto_pad="SAME_UPPER",
    ),
    case(
        "same-weights-twice",
        [
            ("Conv", "x,w", "h", {"pads": [1, 1, 1, 1]}),
            ("Relu", "h", "r"),
            ("Conv", "r,w", "y", {"pads": [1, 1, 1, 1]}),
        ],
        {"w": (3, 3, 3, 3)},
        lambda w, x: functional.conv2d(
            torch.relu(functional.conv2d(x, w, padding=1)), w, padding=1
        ),
        data={"x": drawn((2, 3, 6, 6), 4)},
    ),
    case(
        "frozen-weights",
        [("Conv", "x,w,b", "h"), ("Sigmoid", "h", "y")],
        {"x": (2, 3, 6, 6), "b": (4,)},
        lambda x, b: torch.sigmoid(
            functional.conv2d(x, torch.tensor(drawn((4, 3, 3, 3), 5)).double(), b)
        ),
        known={"w": drawn((4, 3, 3, 3), 5)},
    ),
]


def _transposed(name: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Case:
    rank = len(x) - 2
    pads = attributes.get("pads", [0] * 2 * rank)

    def reference(x, w, b=None):
        out = _TRANSPOSED[rank](
            x,
            w,
            b,
            stride=attributes.get("strides", 1),
            output_padding=attributes.get("output_padding", 0),
            groups=attributes.get("group", 1),
            dilation=attributes.get("dilations", 1),
        )
        inside = [slice(pads[d], out.shape[2 + d] - pads[d + rank]) for d in range(rank)]
        return out[(slice(None), slice(None), *inside)]

    n_out = w[1] * attributes.get("group", 1)
    parameters = {"x": x, "w": w, **({"b": (n_out,)} if attributes.pop("bias", False) else {})}
    return single(name, "ConvTranspose", parameters, reference, **attributes)


_OF_TRANSPOSED = [
    _transposed("transposed-1d", (2, 3, 6), (3, 4, 3), strides=[2], bias=True),
    _transposed("transposed-2d", (2, 3, 5, 4), (3, 4, 3, 3)),
    _transposed("transposed-stride", (1, 3, 5, 4), (3, 4, 3, 2), strides=[2, 3], bias=True),
    _transposed("transposed-pads", (1, 3, 5, 4), (3, 4, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    _transposed(
        "transposed-output-padding",
        (1, 3, 4, 4),
        (3, 2, 3, 3),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    _transposed("transposed-groups", (1, 4, 5, 4), (4, 3, 3, 3), group=2, strides=[2, 2]),
    _transposed("transposed-dilation", (1, 2, 5, 4), (2, 3, 3, 3), dilations=[2, 2]),
    _transposed(
        "transposed-dilation-stride", (1, 2, 5, 4), (2, 3, 3, 2), dilations=[2, 1], strides=[2, 3]
    ),
    _transposed("transposed-gaps", (1, 2, 4, 4), (2, 3, 2, 2), strides=[3, 3]),
    _transposed("transposed-3d", (1, 2, 3, 4, 3), (2, 3, 2, 2, 2), strides=[2, 1, 2], bias=True),
]

_POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "1d": ((2, 3, 12), {"kernel_shape": [2], "strides": [2]}),
    "1d-overlap": ((2, 3, 12), {"kernel_shape": [4], "strides": [2], "pads": [1, 1]}),
    "2d": ((2, 3, 8, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "2d-overlap": ((2, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "2d-stride-1": ((1, 2, 6, 6), {"kernel_shape": [3, 2], "strides": [1, 1]}),
    "2d-padding": (
        (1, 3, 8, 7),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "2d-ceil": ((1, 3, 8, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "2d-ceil-padding": (
        (1, 3, 8, 7),
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "2d-gaps": ((1, 3, 9, 9), {"kernel_shape": [2, 2], "strides": [3, 4]}),
    "2d-whole": ((2, 3, 4, 5), {"kernel_shape": [4, 5], "strides": [1, 1]}),
    "3d": ((1, 2, 4, 6, 6), {"kernel_shape": [2, 2, 3], "strides": [2, 2, 3]}),
    "3d-overlap": (
        (1, 2, 5, 6, 5),
        {"kernel_shape": [3, 2, 3], "strides": [2, 1, 2], "pads": [1, 0, 1, 1, 0, 1]},
    ),
}


def _pool(name: str, kind: str, **more: Any) -> Case:
    shape, attributes = _POOLS[name]
    rank = len(shape) - 2
    options: dict[str, Any] = {
        "kernel_size": attributes["kernel_shape"],
        "stride": attributes["strides"],
        "padding": attributes.get("pads", [0] * rank)[:rank],
        "ceil_mode": bool(attributes.get("ceil_mode", 0)),
    }
    if kind == "AveragePool":
        options["count_include_pad"] = bool(more.get("count_include_pad", 0))
    function = (_MAX if kind == "MaxPool" else _AVERAGE)[rank]
    suffix = "-count" if more else ""
    return single(
        f"{kind}-{name}{suffix}",
        kind,
        {"x": shape},
        lambda x: function(x, **options),
        **attributes,
        **more,
    )


_OF_POOLS = [
    *(_pool(name, "MaxPool") for name in _POOLS),
    *(_pool(name, "AveragePool") for name in _POOLS),
    *(
        _pool(name, "AveragePool", count_include_pad=1)
        for name in ("1d-overlap", "2d-padding", "2d-ceil-padding", "3d-overlap")
    ),
    single(
        "MaxPool-dilation",
        "MaxPool",
        {"x": (1, 2, 9, 8)},
        lambda x: functional.max_pool2d(x, [3, 2], stride=[1, 2], dilation=[2, 3]),
        kernel_shape=[3, 2],
        strides=[1, 2],
        dilations=[2, 3],
    ),
    single(
        "MaxPool-asymmetric",
        "MaxPool",
        {"x": (1, 2, 6, 7)},
        lambda x: functional.max_pool2d(_padded(x, [0, 1, 1, 1], -np.inf), 3, stride=2),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 1, 1, 1],
    ),
    *(
        single(
            f"GlobalAveragePool-{len(shape)}",
            "GlobalAveragePool",
            {"x": shape},
            lambda x: x.mean(dim=tuple(range(2, x.ndim)), keepdim=True),
        )
        for shape in ((2, 3, 7), (2, 3, 4, 5), (2, 3, 4, 3, 2))
    ),
    *(
        single(
            f"GlobalMaxPool-{len(shape)}",
            "GlobalMaxPool",
            {"x": shape},
            lambda x: x.amax(dim=tuple(range(2, x.ndim)), keepdim=True),
        )
        for shape in ((2, 3, 7), (2, 3, 4, 5), (2, 3, 4, 3, 2))
    ),
]

_CASES = [*_OF_CONVOLUTIONS, *_OF_TRANSPOSED, *_OF_POOLS]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)


@settings(max_examples=12, derandomize=True, deadline=None)
@given(
    field=st.tuples(st.integers(4, 9), st.integers(4, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    channels=st.sampled_from([(1, 1, 1), (2, 3, 1), (2, 4, 2), (3, 3, 3), (1, 6, 2)]),
)
def test_shapes_of_convolutions(
    field, kernel, strides, dilations, pads, channels, tmp_path_factory
):
    per_group, out, groups = channels
    convolution = _convolution(
        "convolution",
        (2, per_group * groups, *field),
        (out, per_group, *kernel),
        bias=True,
        pads=pads,
        strides=list(strides),
        dilations=list(dilations),
        group=groups,
    )
    agree(convolution, tmp_path_factory.mktemp("shapes"))
