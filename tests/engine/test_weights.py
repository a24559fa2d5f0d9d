"""The weights of a model: digested once, and gone when the executable has its own."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from tilescope.engine import compile_model, load_machine
from tilescope.engine.graph.identity.digest import digest_of, joint_digest
from tilescope.engine.graph.variable import to_host
from tilescope.engine.ir import IrBuilder, Model, value
from tilescope.engine.ir.digest import model_digests
from tilescope.engine.operators import OPERATORS

MACHINE = load_machine("gc200", tiles_per_ipu=8)


def two_products() -> Model:
    builder = IrBuilder("products")
    y = builder.input("x", (4, 4), "float32")
    for name in ("a", "b"):
        weights = builder.constant(np.full((4, 4), ord(name), np.float32), name)
        y = builder.emit(OPERATORS["MatMul"], [y, weights], name=f"by_{name}", source="MatMul")
    return builder.finish([("y", y)])


def weights_of(model: Model) -> list[value.Constant]:
    operands = [operand for operation in model.operations for operand in operation.operands]
    return [operand for operand in operands if isinstance(operand, value.Constant)]


def test_every_weight_is_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_products()
    read: list[Any] = []

    def noted(parts: Any) -> str:
        read.extend(parts)
        return digest_of(parts)

    monkeypatch.setattr(value, "digest_of", noted)
    executable = compile_model(model, MACHINE).executable
    assert list(map(id, read)) == [id(weight.array) for weight in weights_of(model)]
    contexts = [node.debug for node in executable.nodes if node.debug.is_of_model]
    assert {context.weights_digest for context in contexts} == {
        weight.digest for weight in weights_of(model)
    }


def test_digests_of_several_arrays_come_from_their_own() -> None:
    a, b = ("0" * 32, "1" * 32)
    assert joint_digest([]) is None
    assert joint_digest([a]) == a
    assert len({a, b, joint_digest([a, b]), joint_digest([b, a])}) == 4
    first, second = weights_of(model := two_products())
    assert model_digests(model)[1] == joint_digest([first.digest, second.digest])
    assert first.digest == digest_of([first.array]) != second.digest


def test_weights_go_with_the_model() -> None:
    model = two_products()
    compiled = compile_model(model, MACHINE)
    arrays = [weakref.ref(weight) for weight in weights_of(model)]
    assert [actual.name for actual in compiled.model.inputs] == ["x"]
    assert [name for name, _ in compiled.model.outputs] == ["y"]
    del model
    assert [actual() for actual in arrays] == [None, None]


def test_weights_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_products()
    arrays = [weight.array for weight in weights_of(model)]
    copies: list[int] = []

    def noted(array: Any, *args: Any, copy: bool) -> Any:
        result = to_host(array, *args, copy=copy)
        is_laid_out = not any(np.shares_memory(array, stated) for stated in arrays)
        copies.append(is_laid_out + (not np.shares_memory(array, result)))
        return result

    monkeypatch.setattr("tilescope.engine.graph.unchecked_graph.to_host", noted)
    compiled = compile_model(model, MACHINE)
    assert copies == [1, 1]
    held = [v.values for v in compiled.executable.graph.variables if v.values is not None]
    assert not any(np.shares_memory(a, b) for a in held for b in arrays)
