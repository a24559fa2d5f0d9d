"""Models that `check_model` rejects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import IrBuilder, Model, Region, Value, check_model
from tilescope.engine.operators import OPERATORS


def _relu(builder: IrBuilder, x: Value, name: str) -> Value:
    return builder.emit(OPERATORS["Relu"], [x], name=name, source="Relu")


@pytest.fixture
def model() -> Model:
    """Return a chain of two operations."""
    builder = IrBuilder("chain")
    x = builder.input("x", (2, 3), "float32")
    return builder.finish([("y", _relu(builder, _relu(builder, x, "one"), "two"))])


def decision(model: Model, then: Region, otherwise: Region) -> Model:
    builder = IrBuilder("decision")
    condition = builder.input("c", (), "bool")
    builder.inputs += model.inputs
    node = replace_regions(builder, condition, then, otherwise)
    return builder.finish([("y", node)])


def replace_regions(builder: IrBuilder, condition: Value, then: Region, otherwise: Region) -> Value:
    from tilescope.engine.ir import Node

    node = Node(
        operator=OPERATORS["If"],
        name="choose",
        source="If",
        inputs=(condition,),
        regions={"then_branch": then, "else_branch": otherwise},
    )
    (value,) = builder.add(node, ["y"])
    assert value is not None
    return value


def region(x: Value, *, is_complete: bool = True) -> Region:
    inside = IrBuilder("branch")
    built = _relu(inside, x, "inside")
    actual = inside.region([], [built])
    return actual if is_complete else replace(actual, operations=())


def test_a_sound_model_passes(model: Model) -> None:
    check_model(model)
    check_model(decision(model, region(model.inputs[0]), region(model.inputs[0])))


def test_operations_out_of_order(model: Model) -> None:
    problem = replace(model, operations=model.operations[::-1])
    with pytest.raises(BadModel, match=r"'two' \(Relu\) uses 'one' before it is computed"):
        check_model(problem)


def test_an_output_that_nothing_computes(model: Model) -> None:
    with pytest.raises(BadModel, match="Output 'y' is not computed by any operation"):
        check_model(replace(model, operations=model.operations[:1]))


def test_a_result_of_another_shape(model: Model) -> None:
    first, last = model.operations
    problem = replace(last, outputs=(Value("two", (3, 2), "float32"),))
    with pytest.raises(BadModel, match=r"states float32 \(3, 2\) for 'two' and computes"):
        check_model(replace(model, operations=(first, problem), outputs=(("y", problem.output),)))


def test_a_region_that_captures_an_undefined_value(model: Model) -> None:
    stranger = Value("stranger", (2, 3), "float32")
    problem = decision(model, region(model.inputs[0]), region(stranger))
    with pytest.raises(BadModel, match=r"'choose' \(If\) uses 'stranger' before it is computed"):
        check_model(problem)


def test_a_region_whose_result_is_missing(model: Model) -> None:
    x = model.inputs[0]
    problem = decision(model, region(x, is_complete=False), region(x))
    with pytest.raises(BadModel, match="result 'inside' of its then_branch is not computed there"):
        check_model(problem)
