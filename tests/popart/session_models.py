"""Small models that tests of sessions share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import popart

__all__ = ["WEIGHT", "hardware", "inference", "product", "training"]

WEIGHT: NDArray[np.float32] = (np.arange(12, dtype=np.float32) / np.float32(8)).reshape(4, 3)


def product(weight: NDArray[Any] = WEIGHT) -> tuple[popart.Builder, str, str, str, str]:
    """Return a builder of the product of a (2, 4) input and a weight, and of the sum of it.

    Returns
    -------
    tuple
        The builder, and the names of input, weight, product and sum.
    """
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 4]), "x")
    w = builder.addInitializedInputTensor(weight, "w")
    out = builder.aiOnnx.matmul([x, w])
    loss = builder.aiOnnx.reducesum([out], keepdims=0)
    return builder, x, w, out, loss


def hardware() -> popart.DeviceInfo:
    """Return a device of few tiles, for which programs can be saved."""
    return popart.DeviceManager().acquireAvailableDevice(1, 4)


def _options(**options: Any) -> popart.SessionOptions:
    stated = popart.SessionOptions()
    for name, value in options.items():
        setattr(stated, name, value)
    return stated


def inference(
    device: popart.DeviceInfo, n_batches: int = 1, **options: Any
) -> tuple[popart.InferenceSession, str, str]:
    """Return a session that is not prepared, and the names of its input and its anchor."""
    builder, x, _, out, _ = product()
    flow = popart.DataFlow(n_batches, {out: popart.AnchorReturnType("All")})
    stated = _options(**options)
    session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=stated)
    return session, x, out


def training(
    device: popart.DeviceInfo, optimizer: popart.Optimizer | None = None, **options: Any
) -> tuple[popart.TrainingSession, str, str, str]:
    """Return a session that is not prepared, and the names of input, weight and product."""
    builder, x, w, out, loss = product()
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [out]),
        loss,
        optimizer or popart.ConstSGD(0.5),
        device,
        userOptions=_options(**options),
    )
    return session, x, w, out
