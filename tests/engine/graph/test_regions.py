"""Regions keep one row of sizes or strides where all vertices agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Graph, Regions, blocks
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.machine import load_machine


def regions(sizes: list[object], strides: list[object], n: int = 100) -> Regions:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (10_000,), "x").variable
    return blocks(x, np.arange(n) * 20, sizes, strides, n)  # type: ignore[arg-type]


def stored_bytes(table: np.ndarray) -> int:
    """Return the bytes of the rows of a table that are apart in memory."""
    return int(np.prod([n for n, step in zip(table.shape, table.strides, strict=True) if step]) * 8)


@pytest.mark.parametrize("size", [4, np.full(100, 4)], ids=["scalar", "column"])
def test_a_table_with_equal_rows_stores_one(size: object) -> None:
    made = regions([2, size], [10, 1])
    assert stored_bytes(made.size) == stored_bytes(made.stride) == 16
    assert made.size.tolist() == [[2, 4]] * 100
    assert made.stride.tolist() == [[10, 1]] * 100
    assert made.n_elements.tolist() == [8] * 100
    assert made.shapes[0].tolist() == [[2, 4]]
    made.check("A vertex")


def test_a_table_with_other_rows_stores_them() -> None:
    size = np.full(100, 4)
    size[57] = 5
    made = regions([2, size], [10, 1])
    assert made.shapes[0].shape == (100, 2)
    assert stored_bytes(made.stride) == 16
    assert made.n_elements[56:58].tolist() == [8, 10]
    made.check("A vertex")


def test_the_region_that_is_out_of_range_is_named() -> None:
    with pytest.raises(BadGraph, match="vertex 0 accesses elements 0 to 10004"):
        regions([2, 5], [10_000, 1]).check("A vertex")
    with pytest.raises(BadGraph, match="vertex 99 accesses elements 1980 to 10009"):
        regions([8_030], [1]).check("A vertex")


def test_equal_tables_have_one_digest_however_they_were_given() -> None:
    digests = ArrayDigests()
    one, other = regions([2, 4], [10, 1]), regions([2, np.full(100, 4)], [10, 1])
    assert digests.of(one.size) == digests.of(other.size)
    assert digests.of(one.size) != digests.of(regions([2, 4], [10, 1], 99).size)


def test_regions_are_frozen_and_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = regions([2, np.arange(1, 101)], [10, 1])
    moved = replace(made, variable=regions([1], [1]).variable)
    assert all(array is None or not array.flags.writeable for array in made.arrays)
    assert all(one is other for one, other in zip(made.arrays, moved.arrays, strict=True))
    digests = ArrayDigests()
    expected = digests.of_all(made.arrays)
    monkeypatch.setattr(ArrayDigests, "of", None)
    assert digests.of_all(moved.arrays) == expected
