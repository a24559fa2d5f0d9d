"""Tables that a plan allocates: what their look-ups and updates cost, and what the host holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilescope import engine
from tilescope.engine import Builder, Executable, Graph, Tensor, load_machine
from tilescope.engine.graph import View
from tilescope.engine.library.popops.slicing.embedding import (
    add_constant_table,
    create_slice_tensor,
    plan_embedding,
)
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import multi_update_add
from tilescope.engine.library.popops.slicing.sliceable import (
    create_indices_tensor,
    create_sliceable_tensor,
)
from tilescope.engine.planner.embedding import EmbeddingShape, equal_edges, plan_table
from tilescope.engine.program import Sequence

#: Rows, columns and look-ups.
CASES = [(2_000, 200, 360), (600, 40, 90), (300, 768, 64), (20_000, 128, 100), (2_000, 202, 360)]


def _new(machine: str) -> Builder:
    return Builder(Graph(load_machine(machine, parameter_set="ipu_model")), Sequence("main"))


def _linear(build: Builder, shape: tuple[int, ...], name: str, grain: int = 4) -> Tensor:
    tensor = build.graph.add_variable("float16", shape, name)
    build.graph.map_linearly(tensor, grain=grain)
    return tensor


def _compiled(build: Builder) -> Executable:
    return engine.compile_programs(build.graph, [build.sequence])


def _cycles(build: Builder) -> int:
    return sum(int(step.cost.cycles.max()) for step in _compiled(build).steps)


def _table(build: Builder, kind: str, shape: tuple[int, int], n_lookups: int) -> View:
    if kind == "sliceable":
        return create_sliceable_tensor(build, "float16", shape)
    if kind == "planned":
        plan = plan_embedding(build, "float16", shape, n_lookups)
        return create_sliceable_tensor(build, "float16", shape, plan=plan)
    return _linear(build, shape, "table", shape[1] if kind == "rows" else 4)


@pytest.mark.parametrize("machine", ["gc2", "gc200"])
@pytest.mark.parametrize(("n_rows", "n_columns", "n_lookups"), CASES)
def test_look_ups_of_an_allocated_table_are_no_dearer(
    machine: str, n_rows: int, n_columns: int, n_lookups: int
) -> None:
    def cycles(kind: str) -> int:
        build = _new(machine)
        table = _table(build, kind, (n_rows, n_columns), n_lookups)
        multi_slice(build, table, create_indices_tensor(build, (n_lookups,)))
        return _cycles(build)

    other = min(cycles("rows"), cycles("linear"))
    assert cycles("sliceable") <= other
    assert cycles("planned") <= other


@pytest.mark.parametrize("machine", ["gc2", "gc200"])
@pytest.mark.parametrize(("n_rows", "n_columns", "n_lookups"), CASES)
def test_updates_of_an_allocated_table_are_no_dearer(
    machine: str, n_rows: int, n_columns: int, n_lookups: int
) -> None:
    def cycles(kind: str) -> int:
        build = _new(machine)
        table = _table(build, kind, (n_rows, n_columns), n_lookups)
        indices = create_indices_tensor(build, (n_lookups,))
        multi_update_add(build, table, indices, _linear(build, (n_lookups, n_columns), "updates"))
        return _cycles(build)

    other = min(cycles("rows"), cycles("linear"))
    assert cycles("sliceable") <= other
    assert cycles("planned") <= other


@pytest.mark.parametrize("machine", ["gc2", "gc200"])
def test_a_plan_that_is_followed_saves_cycles_in_look_up_and_update_together(machine: str) -> None:
    shape, n_lookups = (2_000, 200), 360

    def cycles(*, is_planned: bool) -> int:
        build = _new(machine)
        plan = plan_embedding(build, "float16", shape, n_lookups) if is_planned else None
        table = _linear(build, shape, "table", shape[1])
        updates: View = _linear(build, (n_lookups, shape[1]), "updates")
        if plan is not None:
            table = create_sliceable_tensor(build, "float16", shape, plan=plan)  # type: ignore[assignment]
            updates = create_slice_tensor(build, "float16", shape, n_lookups, plan)
        indices = create_indices_tensor(build, (n_lookups,))
        multi_slice(build, table, indices, plan=plan)
        multi_update_add(build, table, indices, updates, plan=plan)
        return _cycles(build)

    assert cycles(is_planned=True) < cycles(is_planned=False)


def _arrays(item: Any, seen: set[int]) -> Iterator[np.ndarray]:
    """Yield the arrays that an object holds, directly or in what it holds."""
    if id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, np.ndarray):
        yield item
    elif isinstance(item, dict):
        for value in item.values():
            yield from _arrays(value, seen)
    elif isinstance(item, list | tuple | set):
        for value in item:
            yield from _arrays(value, seen)
    elif type(item).__module__.startswith("tilescope"):
        for value in getattr(item, "__dict__", {}).values():
            yield from _arrays(value, seen)


@pytest.mark.parametrize("machine", ["gc2", "gc200"])
@pytest.mark.parametrize("is_planned", [True, False])
def test_the_host_holds_little_of_a_large_table(machine: str, is_planned: bool) -> None:
    """100,000 rows of 200 columns and 1,440 look-ups: nothing has an entry for row and look-up."""
    build, shape, n_lookups = _new(machine), (100_000, 200), 1_440
    plan = plan_embedding(build, "float16", shape, n_lookups) if is_planned else None
    table = create_sliceable_tensor(build, "float16", shape, plan=plan)
    indices = create_indices_tensor(build, (n_lookups,))
    out = multi_slice(build, table, indices, plan=plan)
    updates = build.graph.clone(out, "updates")
    multi_update_add(build, table, indices, updates, plan=plan)
    executable = _compiled(build)
    largest = max(array.size for array in _arrays([build.graph, executable], set()))
    # A few entries for every part of a looked up row; the table itself has 20 million elements.
    assert largest <= 4 * n_lookups * 100
    assert executable.memory.including_gaps.max() < build.graph.machine.bytes_per_tile


def test_the_split_of_the_published_tables() -> None:
    """Columns of one word and as many parts of rows as tiles allow; look-ups if rows are few."""
    tiles = {"gc2": 1_216, "gc200": 1_472}
    for name, n_tiles in tiles.items():
        machine = load_machine(name, parameter_set="ipu_model")
        large = plan_table(EmbeddingShape(100_000, 200, 1_440, 2), machine)
        assert (large.lookups, large.rows, large.columns) == (1, n_tiles // 100, 100)
        small = plan_table(EmbeddingShape(1_000, 200, 21_600, 2), machine)
        assert (small.lookups, small.rows, small.columns) == (n_tiles // 100, 1, 100)


def test_temporary_data_stay_within_their_share() -> None:
    machine = load_machine("gc200", parameter_set="ipu_model")
    shape = EmbeddingShape(100_000, 200, 11_520, 2)
    free, tight = plan_table(shape, machine), plan_table(shape, machine, 0.1)
    limit = 0.1 * machine.bytes_per_tile
    assert free.temporary_bytes > limit >= tight.temporary_bytes
    # If no split fits, the one with least temporary data is taken.
    least = plan_table(shape, machine, 1e-6)
    assert least.temporary_bytes <= tight.temporary_bytes


@pytest.mark.parametrize(
    ("size", "n_parts", "grain"), [(10, 4, 1), (7, 4, 2), (1, 5, 4), (12, 3, 4)]
)
def test_parts_are_equal_but_the_last(size: int, n_parts: int, grain: int) -> None:
    widths = np.diff(equal_edges(size, n_parts, grain))
    assert widths.sum() == size
    assert widths.size <= n_parts
    assert (widths[:-1] == widths[0]).all()
    assert 0 < widths[-1] <= widths[0]


def test_weights_that_are_looked_up_stay_on_their_tiles() -> None:
    def cycles(*, is_allocated: bool) -> int:
        build = _new("gc200")
        values = np.zeros((30_000, 128), np.float16)
        table = add_constant_table(build, values, "weights", 384) if is_allocated else None
        assert (table is not None) == is_allocated
        if table is None:
            table = build.constant(values, "weights", grain=2)
        multi_slice(build, table, create_indices_tensor(build, (384,)))
        return _cycles(build)

    assert cycles(is_allocated=True) < cycles(is_allocated=False)


def test_few_constants_are_spread_as_all_others() -> None:
    build = _new("gc200")
    assert add_constant_table(build, np.zeros((4, 3), np.float32), "few", 2) is None


@pytest.mark.parametrize("n_columns", [64, 200])
def test_many_look_ups_in_few_rows_copy_the_table(n_columns: int) -> None:
    """Look-ups where the columns lie would all be on every tile."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=64))
    build = Builder(graph, Sequence("main"))
    table = create_sliceable_tensor(build, "float32", (64, n_columns))
    multi_slice(build, table, create_indices_tensor(build, (360,)))
    names = [step.name for step in _compiled(build).steps if step.kind == "OnTileExecute"]
    assert names == ["rearrange", "multiSlice/slice"]
    assert _cycles(build) < 6_000
