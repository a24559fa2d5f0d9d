"""Addresses on a tile, against layouts computed on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilescope.engine import Executable, Field, Graph, Machine, Tensor, codelet, compile_programs
from tilescope.engine import load_machine as load
from tilescope.engine.compiler.kernels.placement import (
    Lifetimes,
    element_of,
    first_fit,
    nothing_asked,
)
from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.program import Execute

KIB = 1 << 10


def law(batch: Batch, _: Machine) -> np.ndarray:
    return np.where(batch.is_fast, 100, 700)


def make(*fields: Field, **asks: Any) -> Codelet:
    def double(x, out):
        out[:] = x + x

    return codelet(*fields, law=law, code_bytes=40, is_supervisor=True, **asks)(double)


def program(
    double: Codelet, n_bytes: int, machine: Machine | None = None, cache: Path | None = None
) -> tuple[Executable, Tensor, Tensor]:
    """Return a program of one vertex on one tile; x and out have `n_bytes` each."""
    graph = Graph(machine or load("gc200", tiles_per_ipu=1))
    n = n_bytes // 4
    x, out = (graph.add_variable("float32", (n,), name) for name in ("x", "out"))
    for tensor in (x, out):
        graph.map_linearly(tensor, tiles=[0])
    compute_set = graph.add_compute_set("double")
    start = np.zeros(1, np.int64)
    fields = {
        "x": blocks(x.variable, start, [n], [1], 1),
        "out": blocks(out.variable, start, [n], [1], 1),
    }
    graph.add_vertices(compute_set, double, [0], fields)
    return compile_programs(graph, [Execute(compute_set)], cache_directory=cache), x, out


def offset(executable: Executable, tensor: Tensor) -> int:
    parts = executable.memory.parts
    (i,) = np.flatnonzero(parts.variable_id == tensor.variable.variable_id)
    return int(parts.offset[i])


def test_elements_are_counted_from_where_the_regions_meet() -> None:
    """A GC2 tile: 120 KiB in seven and a half elements, then pairs of them."""
    addresses = np.array([0, 8 * KIB - 1, 8 * KIB, 120 * KIB - 1, 120 * KIB, 152 * KIB - 1])
    numbers = element_of(addresses, load("gc2"))
    assert numbers.tolist() == [0, 0, 1, 7, 8, 8]
    assert element_of(np.array([152 * KIB]), load("gc2")).tolist() == [9]


def test_without_demands_parts_lie_one_behind_the_other() -> None:
    executable, x, out = program(make(Field("x", "in"), Field("out", "out")), 1_000)
    assert offset(executable, out) == offset(executable, x) + 1_000
    assert executable.memory.including_gaps[0] == offset(executable, out) + 1_000


def test_fields_apart_begin_at_another_element() -> None:
    double = make(Field("x", "in"), Field("out", "out"), apart=[("x", "out")])
    executable, x, out = program(double, 1_000)
    assert offset(executable, x) < 16 * KIB
    assert offset(executable, out) == 16 * KIB
    memory = executable.memory
    assert memory.including_gaps[0] == 16 * KIB + 1_000
    assert memory.including_gaps[0] - memory.excluding_gaps[0] > 16 * KIB - 6_000


def test_an_interleaved_field_lies_behind_all_that_is_not() -> None:
    executable, x, out = program(
        make(Field("x", "in"), Field("out", "out", interleaved=True)), 1_000
    )
    assert offset(executable, x) < 16 * KIB
    assert offset(executable, out) == 212_992
    memory = executable.memory
    assert memory.including_gaps.tolist() == [212_992 + 1_000]
    assert sum(split[1].sum() for split in memory.categories.values()) == 1_000


SMALL = replace(load("gc200", tiles_per_ipu=1), interleaved_bytes=32 * KIB)


def test_what_is_for_speed_gives_way_and_the_vertex_is_slow() -> None:
    """40 KiB do not fit into 32 KiB of interleaved memory."""
    fields = Field("x", "in"), Field("out", "out", interleaved=True)
    double = make(*fields, apart=[("x", "out")], has_slow_path=True)
    for machine, is_met in ((load("gc200", tiles_per_ipu=1), True), (SMALL, False)):
        executable, x, out = program(double, 40 * KIB, machine)
        assert executable.overfull_tiles.size == 0
        assert (offset(executable, out) >= 212_992) == is_met
        if not is_met:
            assert offset(executable, out) == offset(executable, x) + 40 * KIB
        slow = [tiles.tolist() for tiles in executable.memory.slow_tiles.values()]
        assert slow == ([] if is_met else [[0]])
        assert executable.steps[0].cost.tile_cycles.tolist() == [100 if is_met else 700]
        assert executable.vertex_uses[0].max_cycles == (100 if is_met else 700)


def test_the_cache_knows_the_slow_path(tmp_path: Path) -> None:
    fields = Field("x", "in"), Field("out", "out", interleaved=True)
    double = make(*fields, has_slow_path=True)
    built, actual = (program(double, 40 * KIB, SMALL, tmp_path)[0] for _ in range(2))
    assert (built.record.cache, actual.record.cache) == ("miss", "hit")
    for executable in (built, actual):
        assert executable.steps[0].cost.tile_cycles.tolist() == [700]
        assert list(executable.memory.slow_tiles) == [(0, 0)]
    assert actual.memory.unconstrained.tolist() == built.memory.unconstrained.tolist()
    assert actual.memory.code_end.tolist() == built.memory.code_end.tolist()


def test_what_must_be_does_not_give_way() -> None:
    double = make(Field("x", "in"), Field("out", "out", interleaved=True))
    executable, x, out = program(double, 40 * KIB, SMALL)
    assert offset(executable, out) == 212_992
    assert executable.overfull_tiles.tolist() == [0]
    assert executable.memory.unconstrained.tolist() == [offset(executable, x) + 80 * KIB]
    overflowed = sum(int(split[2].sum()) for split in executable.memory.categories.values())
    assert overflowed == 8 * KIB
    lost_bytes = 212_992 + 40 * KIB - int(executable.memory.unconstrained[0])
    text = describe_overflow(executable)
    assert (
        f"{lost_bytes:,} bytes of it are lost to interleaved operands and operands in different"
        f" memory elements: without them it would fit, in {executable.memory.unconstrained[0]:,};"
        " past the end lies out\n"
    ) in text
    assert "are executable" not in text


def test_code_beyond_the_executable_region_does_not_fit() -> None:
    for room, fits in ((2_000, True), (1_000, False)):
        machine = replace(load("gc200", tiles_per_ipu=1), non_interleaved_bytes=room)
        executable, _, _ = program(make(Field("x", "in"), Field("out", "out")), 8, machine)
        assert 1_000 < executable.memory.code_end[0] < 2_000
        assert (executable.overfull_tiles.size == 0) == fits
        if not fits:
            text = describe_overflow(executable)
            assert "1 of 1 tiles need more than the 1,000 bytes that hold code" in text
            end = executable.memory.code_end[0]
            assert f"its code takes {end:,} bytes, but only the first 1,000 are exec" in text
            assert "are lost to" not in text


def placed(room: int) -> tuple[list[int], int]:
    """Return where four parts lie in what is left of a tile, and where the highest ends.

    They take 4, 4, 2 and 3 words of 8 bytes and live from 1 to 2, 1 to 5, 2 to 4 and 2 to 6; at
    most 9 words live at once.
    """
    machine = load("gc200", tiles_per_ipu=1)
    base = machine.allocatable_bytes - 8 * room
    lives = Lifetimes(np.arange(4), np.arange(5), np.array([1, 1, 2, 2]), np.array([2, 5, 4, 6]))
    offset, highest = first_fit(
        np.array([0, 4]), 8 * np.array([4, 4, 2, 3]), lives, np.array([base]), nothing_asked(4),
        machine,
    )  # fmt: skip
    return ((offset - base) // 8).tolist(), int(highest[0] - base) // 8


@pytest.mark.parametrize(
    ("room", "offsets", "highest"),
    [
        # As they begin: the third takes the place of the first, the fourth fits behind the second.
        (11, [0, 4, 0, 8], 11),
        # The largest first: the fourth takes half of the place of the first, the third none.
        (10, [0, 4, 8, 0], 10),
        # The longest first: the second and the fourth live for 4 steps, the third for 2.
        (9, [4, 0, 7, 4], 9),
        # It does not fit in any order: the lowest end counts.
        (8, [4, 0, 7, 4], 9),
    ],
)
def test_parts_that_do_not_fit_are_placed_in_other_orders(
    room: int, offsets: list[int], highest: int
) -> None:
    assert placed(room) == (offsets, highest)


def test_fields_on_one_variable_cannot_be_placed_apart() -> None:
    double = make(Field("x", "in"), Field("out", "out"), apart=[("x", "out")])
    graph = Graph(load("gc200", tiles_per_ipu=2))
    x = graph.add_variable("float32", (20,), "x")
    graph.map_linearly(x, tiles=[1])
    compute_set = graph.add_compute_set("double")
    fields = {
        "x": blocks(x.variable, np.array([0]), [10], [1], 1),
        "out": blocks(x.variable, np.array([10]), [10], [1], 1),
    }
    graph.add_vertices(compute_set, double, [1], fields)
    with pytest.raises(BadGraph, match="on tile 1 both are on variable 'x': put them on two"):
        compile_programs(graph, [Execute(compute_set)])


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        ({"apart": [("x", "y")]}, "keeps 'y' apart, which is not one of its fields x, out"),
        ({"apart": [("x",)]}, "keeps 'x' apart: name two or more fields"),
        ({"apart": [("x", "x")]}, "keeps 'x', 'x' apart: name two or more fields, each once"),
        ({"apart": ("x", "out")}, "expected groups of field names"),
        ({"apart": "x"}, "keeps apart is 'x': expected groups of field names"),
        ({"has_slow_path": True}, "has a slow path but no memory constraints"),
    ],
)
def test_invalid_constraints(asks: dict[str, Any], message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        make(Field("x", "in"), Field("out", "out"), **asks)
