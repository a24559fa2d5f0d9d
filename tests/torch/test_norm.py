"""Gradients of normalisations, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.torch.compared import Case, agree, case, drawn, ids, single
from torch.nn import functional

_RMS = 24  # opset


def _layer(name: str, shape: tuple[int, ...], axis: int, given: str = "wb") -> Case:
    inner = shape[axis:]
    parameters = {"x": shape, **({"w": inner} if "w" in given else {})}
    known = {} if "w" in given else {"w": np.ones(inner, np.float32)}
    if "b" in given:
        parameters["b"] = inner

    def reference(x, *factors):
        w = factors[0] if "w" in given else None
        b = factors[-1] if "b" in given else None
        return functional.layer_norm(x, inner, w, b, eps=1e-5)

    return single(
        name,
        "LayerNormalization",
        parameters,
        reference,
        known=known,
        inputs="x,w,b" if "b" in given else "x,w",
        axis=axis,
    )


def _rms(name: str, shape: tuple[int, ...], axis: int, *, is_scaled: bool = True) -> Case:
    inner = shape[axis:]
    return single(
        name,
        "RMSNormalization",
        {"x": shape, **({"w": inner} if is_scaled else {})},
        lambda x, w=None: functional.rms_norm(x, inner, w, eps=1e-5),
        known={} if is_scaled else {"w": np.ones(inner, np.float32)},
        inputs="x,w",
        opset=_RMS,
        axis=axis,
    )


def _statistics(opset: int) -> tuple[str, ...]:
    """Return the outputs of a batch normalisation that trains."""
    return ("y", "mean", "var") if opset >= 14 else ("y", "mean", "var", "m", "v")


def _batch(name: str, shape: tuple[int, ...], opset: int) -> Case:
    channels = shape[1]
    mode = {"training_mode": 1} if opset >= 14 else {}  # has the attribute
    return case(
        name,
        [("BatchNormalization", "x,w,b,mean0,var0", ",".join(_statistics(opset)), mode)],
        {"x": shape, "w": (channels,), "b": (channels,)},
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True, eps=1e-5),
        known={"mean0": drawn((channels,), 5), "var0": np.abs(drawn((channels,), 6))},
        opset=opset,
    )


def _group(name: str, shape: tuple[int, ...], groups: int) -> Case:
    return single(
        name,
        "GroupNormalization",
        {"x": shape, "w": (shape[1],), "b": (shape[1],)},
        lambda x, w, b: functional.group_norm(x, groups, w, b, eps=1e-5),
        num_groups=groups,
    )


_MEAN, _VARIANCE = drawn((3,), 5), np.abs(drawn((3,), 6))

_CASES = [
    _layer("layer", (4, 6), -1),
    _layer("layer-3", (2, 3, 8), -1),
    _layer("layer-two-axes", (3, 4, 5), 1),
    _layer("layer-first-axis", (2, 3, 4), 0),
    _layer("layer-no-bias", (4, 6), -1, "w"),
    _layer("layer-plain", (4, 6), -1, ""),
    _layer("layer-bias-only", (4, 6), -1, "b"),
    _layer("layer-wide", (8, 96), -1),
    single(
        "layer-broadcast-scale",
        "LayerNormalization",
        {"x": (2, 3, 4), "w": (3, 1), "b": (4,)},
        lambda x, w, b: functional.layer_norm(x, (3, 4), eps=1e-5) * w + b,
        axis=1,
    ),
    case(
        "layer-frozen-x",
        [("LayerNormalization", "x,w,b", "h", {"axis": -1}), ("Tanh", "h", "y")],
        {"w": (6,), "b": (6,)},
        lambda w, b, x: torch.tanh(functional.layer_norm(x, (6,), w, b, eps=1e-5)),
        data={"x": drawn((4, 6))},
    ),
    case(
        "layer-primitives",
        [
            ("ReduceMean", "x,axes", "m"),
            ("Sub", "x,m", "d"),
            ("Pow", "d,two", "q"),
            ("ReduceMean", "q,axes", "v"),
            ("Add", "v,eps", "e"),
            ("Sqrt", "e", "s"),
            ("Div", "d,s", "n"),
            ("Mul", "n,w", "u"),
            ("Add", "u,b", "y"),
        ],
        {"x": (4, 6), "w": (6,), "b": (6,)},
        lambda x, w, b: functional.layer_norm(x, (6,), w, b, eps=1e-5),
        known={
            "axes": np.array([-1]),
            "two": np.array(2, np.float32),
            "eps": np.array(1e-5, np.float32),
        },
    ),
    _rms("rms", (4, 6), -1),
    _rms("rms-plain", (4, 6), -1, is_scaled=False),
    _rms("rms-two-axes", (2, 3, 4), 1),
    _batch("batch-9", (4, 3, 5), 9),
    _batch("batch-13", (4, 3, 5, 2), 13),
    _batch("batch-14", (8, 3), 14),
    _batch("batch-15", (4, 3, 5, 2), 15),
    _batch("batch-21", (4, 3, 3, 2, 2), 21),
    single(
        "batch-eval",
        "BatchNormalization",
        {"x": (4, 3, 5), "w": (3,), "b": (3,)},
        lambda x, w, b: functional.batch_norm(
            x, torch.tensor(_MEAN).double(), torch.tensor(_VARIANCE).double(), w, b, eps=1e-5
        ),
        known={"mean": _MEAN, "var": _VARIANCE},
    ),
    single(
        "batch-eval-frozen",
        "BatchNormalization",
        {"x": (4, 3, 5)},
        lambda x: functional.batch_norm(
            x, torch.tensor(_MEAN).double(), torch.tensor(_VARIANCE).double(), eps=1e-5
        ),
        known={
            "w": np.ones(3, np.float32),
            "b": np.zeros(3, np.float32),
            "mean": _MEAN,
            "var": _VARIANCE,
        },
    ),
    single(
        "batch-eval-statistics",
        "BatchNormalization",
        {"x": (4, 3, 5), "w": (3,), "b": (3,), "mean": (3,), "var": _VARIANCE},
        lambda x, w, b, mean, var: (
            (x - mean[:, None]) / (var[:, None] + 1e-5).sqrt() * w[:, None] + b[:, None]
        ),
    ),
    _group("group", (2, 6, 5), 3),
    _group("group-2d", (2, 6, 4, 3), 2),
    _group("group-one", (2, 4, 4, 3), 1),
    *(
        single(
            f"instance-{len(shape)}",
            "InstanceNormalization",
            {"x": shape, "w": (3,), "b": (3,)},
            lambda x, w, b: functional.instance_norm(x, weight=w, bias=b, eps=1e-5),
        )
        for shape in ((2, 3, 7), (2, 3, 4, 5), (2, 3, 3, 2, 3))
    ),
    single(
        "mean-variance",
        "MeanVarianceNormalization",
        {"x": (3, 2, 4, 4)},
        lambda x: (
            (x - x.mean((0, 2, 3), keepdim=True))
            / (x.var((0, 2, 3), keepdim=True, unbiased=False).sqrt() + 1e-9)
        ),
    ),
    single(
        "mean-variance-of-one",
        "MeanVarianceNormalization",
        {"x": (1, 3, 1, 1)},
        lambda x: x * 0,
    ),
    single(
        "lrn",
        "LRN",
        {"x": (2, 5, 3, 3)},
        lambda x: functional.local_response_norm(x, 3, alpha=1e-2, beta=0.75, k=1.0),
        size=3,
        alpha=1e-2,
        beta=0.75,
        bias=1.0,
    ),
]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)
