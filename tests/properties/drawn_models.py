"""Small random models as operator graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tilescope.engine.ir import IrBuilder, Model, Value
from tilescope.engine.operators import OPERATORS


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Return a chain of a few operations on small images or rows."""
    builder = IrBuilder("drawn")
    shape = draw(st.sampled_from([(1, 2, 4, 4), (2, 3, 5, 3), (1, 16, 3, 3), (3, 8), (5, 12)]))
    value = builder.input("x", shape, "float32")
    random = np.random.default_rng(draw(st.integers(0, 99)))
    for i in range(draw(st.integers(1, 4))):
        name = f"op{i}"
        kinds = ["unary", "scale", "reduce", "transpose", "reshape", "residual"]
        kinds += ["convolution", "pool"] if len(value.shape) == 4 else ["matmul"] * 2
        kind = draw(st.sampled_from(kinds))
        value = _add(draw, builder, value, kind, name, random)
    return builder.finish([("y", value)])


def _add(
    draw: st.DrawFn,
    builder: IrBuilder,
    x: Value,
    kind: str,
    name: str,
    random: np.random.Generator,
) -> Value:
    def emit(operator: str, *inputs: Value, **attributes: Any) -> Value:
        return builder.emit(OPERATORS[operator], inputs, name=name, source=kind, **attributes)

    def constant(*shape: int) -> Value:
        return builder.constant(random.uniform(-1, 1, shape).astype(np.float32), f"{name}/w")

    if kind == "unary":
        return emit("unary", x, function=draw(st.sampled_from(["relu", "tanh", "sigmoid"])))
    if kind == "scale":
        return emit("binary", x, constant(x.shape[-1]), function="multiply")
    if kind == "residual":
        return emit("binary", x, x, function="add")
    if kind == "reduce":
        axes = (draw(st.integers(0, len(x.shape) - 1)),)
        operation = draw(st.sampled_from(["sum", "maximum"]))
        return emit("reduce", x, operation=operation, axes=axes, scale=0.5)
    if kind == "transpose":
        return emit("transpose", x, order=tuple(draw(st.permutations(range(len(x.shape))))))
    if kind == "reshape":
        return emit("reshape", x, shape=(int(np.prod(x.shape[:-1])), x.shape[-1]))
    if kind == "matmul":
        return emit("matmul", x, constant(x.shape[-1], draw(st.sampled_from([1, 4, 18]))))
    kernel = tuple(min(draw(st.integers(1, 3)), size) for size in x.shape[2:])
    window = {
        "kernel": kernel,
        "stride": (1, 1),
        "dilation": (1, 1),
        "padding_before": (kernel[0] // 2, 0),
        "padding_after": (0, kernel[1] // 2),
    }
    if kind == "pool":
        return emit("max_pool", x, **window)
    weights = constant(draw(st.sampled_from([1, 4, 17])), x.shape[1], *kernel)
    return emit("convolution", x, weights, groups=1, **window)
