"""Gradients through quantisation, straight through as in PyTorch's fake quantisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.torch.compared import agree, case, drawn

_X = drawn((4, 6), 1) * 2


def _nodes(axis=None):
    options = {} if axis is None else {"axis": axis}
    return [
        ("Tanh", "w", "t"),
        ("Mul", "t,two", "x"),
        ("QuantizeLinear", "x,scale,zero", "q", options),
        ("DequantizeLinear", "q,scale,zero", "d", options),
        ("Mul", "d,d", "y"),
    ]


@pytest.mark.parametrize(("dtype", "low", "zero"), [(np.int8, -128, 0), (np.uint8, 0, 120)])
@pytest.mark.parametrize("scale", [0.01, 0.1])
def test_one_scale(scale, dtype, low, zero, tmp_path):
    """At the smaller scale, numbers are beyond the grid."""

    def compute(w):
        x = torch.tanh(w) * 2
        d = torch.fake_quantize_per_tensor_affine(x, scale, zero, low, low + 255)
        return d * d

    given = case(
        f"scale {scale}",
        _nodes(),
        {"w": _X},
        compute,
        known={
            "two": np.array(2, np.float32),
            "scale": np.array(scale, np.float32),
            "zero": np.array(zero, dtype),
        },
    )
    agree(given, tmp_path)


def test_a_scale_for_every_channel(tmp_path):
    scales, zeros = np.array([0.01, 0.02, 0.1, 0.2], np.float32), np.zeros(4, np.int8)

    def compute(w):
        x = torch.tanh(w) * 2
        steps = torch.tensor(scales), torch.tensor(zeros.astype(np.int32))
        d = torch.fake_quantize_per_channel_affine(x.float(), *steps, 0, -128, 127).double()
        return d * d

    given = case(
        "channels",
        _nodes(0),
        {"w": _X},
        compute,
        known={"two": np.array(2, np.float32), "scale": scales, "zero": zeros},
    )
    agree(given, tmp_path)
