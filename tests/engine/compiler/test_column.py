"""Step costs and liveness are sparse: tiles that a step does not touch take no memory."""

from __future__ import annotations

import gc
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Graph, compile_programs, load_machine
from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.executable import tile_memory
from tilescope.engine.compiler.executable.tile_memory import LiveBytes, LiveParts
from tilescope.engine.program import Sequence, Sync


@given(st.lists(st.sampled_from([0, 0, 1, 7, 2**31, 2**40]), min_size=4, max_size=24))
def test_a_column_is_the_array_it_was_made_of(drawn: list[int]) -> None:
    values = np.array(drawn[: len(drawn) // 4 * 4], np.int64)
    column, table = Column.of(values), values.reshape(4, -1)
    assert column.tolist() == values.tolist()
    assert column.dense().dtype == column.values.dtype == np.int64
    assert (len(column), column.sum(), column.max()) == (values.size, values.sum(), values.max())
    assert column.any() == values.any()
    assert column[1] == values[1]
    assert column.group_sums(4).tolist() == table.sum(axis=1).tolist()
    assert column.group_maxima(4).tolist() == table.max(axis=1).tolist()
    assert column.group_counts(4).tolist() == (table > 0).sum(axis=1).tolist()
    assert [column.group(i, 4).tolist() for i in range(4)] == table.tolist()
    assert column.n_bytes <= 12 * np.count_nonzero(values)
    with pytest.raises(ValueError, match="read-only"):
        column.ids[...] = 0


@given(st.data())
def test_live_bytes_are_those_of_the_whole_table(data: st.DataObject) -> None:
    n_tiles, n_steps, n_variables = 3, data.draw(st.integers(1, 6)), 5
    rows = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, n_tiles - 1),
                st.integers(0, n_variables),
                st.integers(1, 9),
                st.integers(0, n_steps),
                st.integers(1, n_steps),
            ),
            max_size=9,
        )
    )
    rows.sort()
    tile, variable, n_bytes, start, length = np.array(rows, np.int64).reshape(-1, 5).T.copy()
    always = np.array(data.draw(st.lists(st.booleans(), min_size=4, max_size=4)), np.bool_)
    is_in_graph = variable < always.size
    owner_always = np.zeros(tile.size, np.bool_)
    owner_always[is_in_graph] = always[variable[is_in_graph]]
    parts = LiveParts(
        np.searchsorted(tile, np.arange(n_tiles + 1)), np.arange(tile.size), n_bytes, 0 * tile,
        variable, owner_always, np.arange(tile.size + 1), start, start + length,
    )  # fmt: skip
    table = np.zeros((n_steps, n_tiles), np.int64)
    for where, which, size, first, count in rows:
        if which >= always.size or not always[which]:
            table[first : first + count, where] += size
    live = LiveBytes.of(parts, n_steps)
    with patch.object(tile_memory, "_CELLS_AT_ONCE", data.draw(st.sampled_from((1, 6, 100)))):
        assert live.dense().tolist() == table.tolist()
    assert live.totals.tolist() == table.sum(axis=1).tolist()
    assert live.peak.tolist() == table.max(axis=0).tolist()
    assert live.peak_step.tolist() == table.argmax(axis=0).tolist()


def test_an_empty_sync_takes_less_than_a_kilobyte() -> None:
    def bytes_held(n_steps: int) -> int:
        graph = Graph(load_machine("gc200", n_ipus=4))
        program = Sequence("main", [Sync(external=i % 2 == 0) for i in range(n_steps)])
        gc.collect()
        tracemalloc.start()
        executable = compile_programs(graph, [program])
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(executable.steps) == n_steps
        return held

    few, many = bytes_held(100), bytes_held(1_100)
    assert many - few < 1_000 * 1_024
