"""Marks of `tilescope.engine.frontend.torch.markers`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Placement, Value
from tilescope.engine.operators import OPERATORS

__all__ = ["RULES"]


def _begin_block(emit: Emission, x: Value, *numbers: int) -> Value:
    """Note where the nodes that follow run."""
    ipu, stage, phase = (None if number < 0 else number for number in numbers)
    emit.facts["begun"] = Placement(ipu, stage, phase)
    return x


def _nop(emit: Emission, x: Value) -> Value:
    return emit("ai.graphcore.Nop", x)


def _print_tensor(emit: Emission, x: Value, title: str, prints_gradient: bool) -> Value:
    return emit("ai.graphcore.PrintTensor", x, title=title, print_gradient=int(prints_gradient))


def _available_memory(emit: Emission, x: Value, share: float) -> Value:
    _hint(emit, x, available_memory_proportion=float(share))
    return x


def _checkpoint(emit: Emission, x: Value) -> Value:
    _hint(emit, x, is_recomputed=False)
    return x


def _hint(emit: Emission, x: Value, **stated: Any) -> None:
    """Add hints to all operations of the node that computes a value."""
    operations = emit.builder.operations
    name = next((op.name for op in reversed(operations) if x in op.results), None)
    for index, operation in enumerate(operations):
        if name is not None and operation.name == name:
            hints = replace(operation.hints, **stated)
            operations[index] = replace(operation, hints=hints)


def _identity_loss(emit: Emission, x: Value, reduction: str) -> Value:
    out = x
    if reduction != "none" and x.shape:
        key = "ReduceMean" if reduction == "mean" else "ReduceSum"
        out = emit.reduced(key, x, range(len(x.shape)), keeps=False)
    else:
        out = emit("Identity", x)
    emit.facts.setdefault("losses", {})[out] = reduction
    return out


def _custom_op(
    emit: Emission,
    inputs: Sequence[Value],
    name: str,
    domain: str,
    version: int,
    attributes: str,
    outputs: Sequence[Value],
) -> list[Value]:
    key = name if domain in ("", "ai.onnx") else f"{domain}.{name}"
    if key not in OPERATORS:
        emit.refuse(
            f"is of operator {key!r}, which is not registered: call engine.custom_operator first"
        )
    return list(emit.results(len(outputs), key, *inputs, **json.loads(attributes)))


def _serialized_matmul(emit: Emission, a: Value, b: Value, *_: Any) -> Value:
    return emit("MatMul", a, b)


RULES: Rules = {
    "tilescope.available_memory": _available_memory,
    "tilescope.begin_block": _begin_block,
    "tilescope.custom_op": _custom_op,
    "tilescope.identity_loss": _identity_loss,
    "tilescope.nop": _nop,
    "tilescope.print_tensor": _print_tensor,
    "tilescope.recomputation_checkpoint": _checkpoint,
    "tilescope.serialized_matmul": _serialized_matmul,
}
