"""Tensors that are made of nothing, or of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _filled(number: int) -> Rule:
    def rule(emit: Emission, *_: Any, **__: Any) -> Value:
        return emit.constant(np.full(emit.shape, number), emit.dtype)

    return rule


def _full(emit: Emission, _: Any, fill: Any, *__: Any, **___: Any) -> Value:
    return emit.expand(emit.value(fill, emit.dtype), emit.shape)


def _new_full(emit: Emission, _: Any, __: Any, fill: Any, **___: Any) -> Value:
    return emit.expand(emit.value(fill, emit.dtype), emit.shape)


def _arange(emit: Emission, *numbers: Any, **_: Any) -> Value:
    if any(isinstance(number, Value) for number in numbers):
        emit.refuse("takes numbers that are known only")
    return emit.constant(np.arange(*numbers), emit.dtype)


def _linspace(emit: Emission, start: Any, end: Any, steps: int, **_: Any) -> Value:
    return emit.constant(np.linspace(start, end, steps), emit.dtype)


def _logspace(emit: Emission, start: Any, end: Any, steps: int, base: Any = 10, **_: Any) -> Value:
    return emit.constant(np.logspace(start, end, steps, base=base), emit.dtype)


def _eye(emit: Emission, *_: Any, **__: Any) -> Value:
    return emit.constant(np.eye(emit.shape[0], emit.shape[1]), emit.dtype)


def _scalar_tensor(emit: Emission, number: Any, **_: Any) -> Value:
    return emit.value(number, emit.dtype)


def _indices(function: Any) -> Rule:
    def rule(emit: Emission, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
        return emit.constant(np.stack(function(rows, offset, columns)), emit.dtype)

    return rule


def _complex(emit: Emission, *_: Any, **__: Any) -> bool:
    return False


RULES: Rules = {
    "aten.arange": _arange,
    "aten.empty": _filled(0),
    "aten.empty_like": _filled(0),
    "aten.empty_permuted": _filled(0),
    "aten.empty_strided": _filled(0),
    "aten.eye": _eye,
    "aten.fill": _full,
    "aten.full": _full,
    "aten.full_like": _full,
    "aten.is_complex": _complex,
    "aten.linspace": _linspace,
    "aten.logspace": _logspace,
    "aten.new_empty": _filled(0),
    "aten.new_empty_strided": _filled(0),
    "aten.new_full": _new_full,
    "aten.new_ones": _filled(1),
    "aten.new_zeros": _filled(0),
    "aten.ones": _filled(1),
    "aten.ones_like": _filled(1),
    "aten.scalar_tensor": _scalar_tensor,
    "aten.tril_indices": _indices(np.tril_indices),
    "aten.triu_indices": _indices(np.triu_indices),
    "aten.zero": _filled(0),
    "aten.zeros": _filled(0),
    "aten.zeros_like": _filled(0),
}
