"""Slices whose place data decide: their shapes, and gradients of those that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.popart.operator_programs import Program, infer, train

import popart

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def _at(program: Program, *places: int) -> str:
    return program.input(np.array(places, np.uint32))


def test_a_slice_has_the_shape_of_what_it_is_written_to() -> None:
    def build(program: Program) -> Sequence[str]:
        builder = program.builder.aiGraphcore
        target = builder.init([6], popart.DataType.FLOAT, popart.InitType.Zero)
        operands = [program.input(X), _at(program, 2), target]
        out = builder.dynamicslice(operands, axes=[0], sizes=[1], noOverlap=True)
        assert program.builder.getTensorShape(out) == [6]
        return [out]

    (out,) = infer(build)
    np.testing.assert_array_equal(out, X[2])


@pytest.mark.parametrize("name", ["dynamicupdate", "dynamicadd"])
def test_an_update_may_lack_dimensions_of_one_element(name: str) -> None:
    def build(program: Program) -> Sequence[str]:
        operands = [program.input(X), _at(program, 1), program.input(X[3])]
        return [getattr(program.builder.aiGraphcore, name)(operands, axes=[0], sizes=[1])]

    (out,) = infer(build)
    expected = X.copy()
    expected[1] = X[3] + (X[1] if name == "dynamicadd" else 0)
    np.testing.assert_array_equal(out, expected)


def test_a_slice_that_does_not_fit_its_target() -> None:
    def build(program: Program) -> Sequence[str]:
        operands = [program.input(X), _at(program, 1), program.input(X[0, :5])]
        return [program.builder.aiGraphcore.dynamicslice(operands, axes=[0], sizes=[1])]

    with pytest.raises(popart.popart_exception, match="expected as many elements"):
        infer(build)


@pytest.mark.parametrize(
    ("is_disjoint", "expected"), [(True, [1, 2, 2, 3, 3]), (False, [1, 3, 2, 3, 3])]
)
def test_gradients_of_slices(is_disjoint: bool, expected: Sequence[float]) -> None:
    """Where slices that are said not to overlap do, that of the last one is written last."""

    def build(program: Program) -> Sequence[str]:
        builder, x = program.builder, program.weight(X[0, :5])
        parts = []
        for place in range(3):
            out = builder.aiGraphcore.dynamicslice(
                [x, _at(program, place + place // 2)], axes=[0], sizes=[2], noOverlap=is_disjoint
            )
            parts.append(builder.aiGraphcore.scale([out], 1.0 + place))
        return [builder.aiOnnx.sum(parts), x]

    ((_, _, gradient),) = train(build, [1])
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("is_disjoint", [True, False])
def test_gradients_of_what_was_there_before(is_disjoint: bool) -> None:
    def build(program: Program) -> Sequence[str]:
        x, update = program.weight(X), program.weight(X[:1])
        out = program.builder.aiGraphcore.dynamicupdate(
            [x, _at(program, 2), update], axes=[0], sizes=[1], noOverlap=is_disjoint
        )
        return [out, x, update]

    ((_, _, _, of_x, of_update),) = train(build, [1, 2])
    expected = np.ones_like(X)
    expected[2] = is_disjoint
    np.testing.assert_array_equal(of_x, expected)
    np.testing.assert_array_equal(of_update, np.ones_like(X[:1]))
