"""Gradients of reductions and softmax, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch.compared import Case, agree, drawn, ids, single

_Axes = tuple[int, ...]


def _product(x: torch.Tensor, axes: _Axes, keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(dim=axis, keepdim=True)
    return x if keep else x.squeeze(axes)


_REDUCTIONS: dict[str, Callable[[torch.Tensor, _Axes, bool], torch.Tensor]] = {
    "ReduceL1": lambda x, axes, keep: x.abs().sum(dim=axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, dim=axes, keepdim=keep),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, dim=axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(dim=axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(dim=axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: x.amin(dim=axes, keepdim=keep),
    "ReduceProd": _product,
    "ReduceSum": lambda x, axes, keep: x.sum(dim=axes, keepdim=keep),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(dim=axes, keepdim=keep),
}

_AXES: dict[str, tuple[_Axes, bool]] = {
    "last": ((2,), True),
    "first-dropped": ((0,), False),
    "two-dropped": ((0, 2), False),
    "all": ((0, 1, 2), True),
}


def _reduction(name: str, kind: str, x: Any, axes: _Axes, keep: bool) -> Case:
    return single(
        name,
        kind,
        {"x": x},
        lambda x: _REDUCTIONS[kind](x, axes, keep),
        known={"axes": np.array(axes)},
        keepdims=int(keep),
    )


_TIES = np.array([[2, 1, 2, -1], [0, 0, 0, 0], [-3, 4, 4, 4]], np.float32)

_SPECIAL = [
    *(_reduction(f"{kind}-ties", kind, _TIES, (1,), True) for kind in ("ReduceMax", "ReduceMin")),
    *(
        _reduction(f"{kind}-zeros", kind, _TIES, (1,), False)
        for kind in ("ReduceL1", "ReduceL2", "ReduceProd")
    ),
    _reduction("ReduceL2-all-zeros", "ReduceL2", np.zeros((2, 3), np.float32), (1,), True),
    single(
        "ReduceLogSum",
        "ReduceLogSum",
        {"x": np.abs(drawn((3, 4)))},
        lambda x: x.sum(1, keepdim=True).log(),
        known={"axes": np.array([1])},
    ),
    single("ReduceSum-scalar", "ReduceSum", {"x": (3, 4)}, lambda x: x.sum(), keepdims=0),
    single(
        "ReduceMean-11",
        "ReduceMean",
        {"x": (3, 4)},
        lambda x: x.mean(1, keepdim=True),
        opset=11,
        axes=[-1],
    ),
    single("ReduceSum-none", "ReduceSum", {"x": (3, 4)}, lambda x: x * 1, noop_with_empty_axes=1),
    single("CumSum", "CumSum", {"x": (3, 4)}, lambda x: x.cumsum(1), known={"axis": np.array(1)}),
    single(
        "CumSum-reverse",
        "CumSum",
        {"x": (3, 4)},
        lambda x: x.flip(0).cumsum(0).flip(0),
        known={"axis": np.array(0)},
        reverse=1,
    ),
    single(
        "CumSum-exclusive",
        "CumSum",
        {"x": (3, 4)},
        lambda x: x.cumsum(1) - x,
        known={"axis": np.array(-1)},
        exclusive=1,
    ),
    single(
        "CumSum-exclusive-reverse",
        "CumSum",
        {"x": (3, 4)},
        lambda x: x.flip(1).cumsum(1).flip(1) - x,
        known={"axis": np.array(1)},
        exclusive=1,
        reverse=1,
    ),
]


def _softmax(kind: str, shape: tuple[int, ...], axis: int, opset: int) -> Case:
    function = torch.softmax if kind == "Softmax" else torch.log_softmax

    def reference(x):
        if opset >= 13:  # the opset from which it is along one axis
            return function(x, dim=axis)
        rows = x.flatten(axis % x.ndim)
        return function(rows, dim=-1).reshape(x.shape)

    name = f"{kind}-{len(shape)}-axis{axis}-{opset}"
    return single(name, kind, {"x": shape}, reference, opset=opset, axis=axis)


_SOFTMAX = (
    [
        _softmax(kind, shape, axis, opset)
        for kind in ("Softmax", "LogSoftmax")
        for shape, axis, opset in (
            ((3, 7), -1, 21),
            ((3, 7), 0, 13),
            ((2, 5, 3), 1, 21),
            ((2, 3, 4, 3), 2, 13),
            ((2, 3, 4), 1, 11),
            ((2, 3, 4), 2, 9),
        )
    ]
    + [
        single(
            f"{kind}-large",
            kind,
            {"x": np.array([[100, 99, -50], [0, 0, 0]], np.float32)},
            function,
            axis=-1,
        )
        for kind, function in (
            ("Softmax", lambda x: torch.softmax(x, -1)),
            ("LogSoftmax", lambda x: torch.log_softmax(x, -1)),
        )
    ]
    + [
        single(
            "LpNormalization-1",
            "LpNormalization",
            {"x": (3, 5)},
            lambda x: torch.nn.functional.normalize(x, p=1, dim=1),
            axis=1,
            p=1,
        ),
        single(
            "LpNormalization-2",
            "LpNormalization",
            {"x": (3, 5)},
            lambda x: torch.nn.functional.normalize(x, p=2, dim=0),
            axis=0,
            p=2,
        ),
    ]
)

_CASES = [
    *(
        _reduction(f"{kind}-{how}", kind, (2, 3, 4), axes, keep)
        for kind in _REDUCTIONS
        for how, (axes, keep) in _AXES.items()
    ),
    *_SPECIAL,
    *_SOFTMAX,
]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)


@settings(max_examples=10, derandomize=True, deadline=None)
@given(
    kind=st.sampled_from(sorted(set(_REDUCTIONS) - {"ReduceProd"})),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    data=st.data(),
)
def test_axes(kind, shape, data, tmp_path_factory):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    reduction = _reduction(kind, kind, shape, tuple(sorted(axes)), data.draw(st.booleans()))
    agree(reduction, tmp_path_factory.mktemp("shapes"))
