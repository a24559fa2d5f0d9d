"""Elementwise results stay where their operand is, also when it is a part of a variable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import engine
from tilescope.engine import Builder, Graph, Tensor, load_machine
from tilescope.engine.graph import View, concat
from tilescope.engine.graph.mapping.mapping import tile_mapping_of
from tilescope.engine.library.popops.elementwise.operations import binary, cast, unary
from tilescope.engine.program import Program, Sequence, StreamCopyIn, StreamCopyOut

VALUES = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)

#: Views of a variable of shape (64, 32) over 16 tiles, and the same parts in numpy.
VIEWS: dict[
    str, tuple[Callable[[Tensor], View], Callable[[NDArray[np.float32]], NDArray[np.float32]]]
] = {
    "rows": (lambda x: x.slice(0, 16, 48), lambda x: x[16:48]),
    "columns": (lambda x: x.slice(1, 4, 12), lambda x: x[:, 4:12]),
    "turned": (lambda x: x.dim_shuffle(1, 0).slice(0, 4, 20), lambda x: x.T[4:20]),
    "joined": (
        lambda x: concat([x.slice(0, 40, 64), x.slice(0, 0, 8)]),
        lambda x: np.concatenate([x[40:], x[:8]]),
    ),
    "one row": (lambda x: x.slice(0, 5, 6), lambda x: x[5:6]),
}


class Case:
    """A variable of shape (64, 32) from the host, two elements a grain over 16 tiles."""

    def __init__(self) -> None:
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=16))
        self.x = self.graph.add_variable("float32", (64, 32), "x")
        self.graph.map_linearly(self.x, grain=2)
        children: list[Program] = [StreamCopyIn("x", self.x)]
        self.sequence = Sequence("main", children)
        self.builder = Builder(self.graph, self.sequence)

    def run(self, y: Tensor) -> tuple[int, NDArray[np.float32]]:
        """Return the bytes that tiles exchange, and the values."""
        self.sequence.add(StreamCopyOut(y, "y"))
        executable = engine.compile_programs(self.graph, [self.sequence], is_checked=True)
        moved = sum(
            int(step.cost.received_bytes.group_sums(1)[0])
            for step in executable.steps
            if step.kind == "DoExchange"
        )
        results: list[NDArray[np.float32]] = []
        with engine.Engine(executable) as device:
            device.connect_stream("x", lambda: VALUES)
            device.connect_stream("y", lambda value: results.append(np.array(value)))
            device.run()
        return moved, results[0]


@pytest.mark.parametrize("name", VIEWS)
def test_a_function_of_a_view_moves_nothing(name: str) -> None:
    case, (view, expected) = Case(), VIEWS[name]
    operand = view(case.x)
    result = unary(case.builder, "relu", operand)
    assert (tile_mapping_of(result).elements_by_tile(16) > 0).tolist() == (
        tile_mapping_of(operand).elements_by_tile(16) > 0
    ).tolist()
    moved, values = case.run(result)
    assert moved == 0
    np.testing.assert_array_equal(values, np.maximum(expected(VALUES), 0))


def test_a_sum_of_slices_follows_the_one_on_most_tiles() -> None:
    case = Case()
    few, many = case.x.slice(0, 0, 8), case.x.slice(1, 0, 4).reshape(8, 32)
    total = binary(case.builder, "add", few, many)
    assert np.unique(tile_mapping_of(total).tile).size == 16
    _, values = case.run(total)
    np.testing.assert_array_equal(values, VALUES[:8] + VALUES[:, :4].reshape(8, 32))


def test_another_type_keeps_the_place() -> None:
    case = Case()
    half = cast(case.builder, case.x.slice(0, 0, 32), "float16")
    moved, values = case.run(half)
    assert moved == 0
    np.testing.assert_array_equal(values, VALUES[:32].astype(np.float16))


def test_every_other_element_stays_too() -> None:
    case = Case()
    outlier = case.x.reshape(32, 2, 32).slice(1, 1, 2).reshape(32, 32)
    result = unary(
        case.builder, "negate", outlier.reshape(32, 16, 2).slice(2, 0, 1).reshape(32, 16)
    )
    moved, values = case.run(result)
    assert moved == 0
    np.testing.assert_array_equal(values, -VALUES.reshape(32, 2, 32)[:, 1, ::2])


def test_a_mapping_of_single_elements_is_not_cloned() -> None:
    """A clone would make a region of every element."""
    case = Case()
    lone = case.graph.add_variable("float32", (64,), "lone")
    case.graph.set_tile_mapping(lone, np.arange(64), np.arange(64) % 16)
    mapping = tile_mapping_of(unary(case.builder, "negate", lone.slice(0, 0, 32)))
    assert mapping.start.size == 16
