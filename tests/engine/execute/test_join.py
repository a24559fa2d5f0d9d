"""Adjoining vertices are computed in one piece, and every element as before."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.codelets.popops.elementwise.copy import COPY_BLOCK
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.codelets.popops.elementwise.operations import BINARY, BINARY_BLOCK
from tilescope.engine.codelets.popops.reduction.reduce import REDUCE
from tilescope.engine.execute.join import MOST_JOINED, Blocks, join
from tilescope.engine.graph.vertex.codelet import Codelet


def _blocks(
    fields: list[tuple[list[int], list[list[int]], list[list[int]]]], scalars: list[float] | None
) -> Blocks:
    columns = [[np.array(field[k], np.int64) for field in fields] for k in range(3)]
    work = np.asarray(sum(size.prod(axis=1) for size in columns[1]), np.int64)
    numbers: list[Any] = [] if scalars is None else [np.array(scalars, np.float32)]
    return Blocks(columns[0], columns[1], columns[2], numbers, work)


def _elements(blocks: Blocks) -> list[tuple[int, ...]]:
    """Return the elements of all fields that meet, for fields of the same sizes."""
    met = []
    for v in range(len(blocks)):
        for index in np.ndindex(*blocks.size[0][v]):
            fields = zip(blocks.start, blocks.stride, strict=True)
            met.append(tuple(int(start[v] + index @ stride[v]) for start, stride in fields))
    return sorted(met)


def test_adjoining_vectors_are_one_piece() -> None:
    field = ([6, 0, 3], [[2], [3], [3]], [[1]] * 3)
    joined = join(BINARY["add"], _blocks([field] * 3, None))
    assert [part[0].tolist() for part in joined.start] == [0, 0, 0]
    assert joined.size[2].tolist() == [[8]]
    assert joined.work.tolist() == [24]


def test_vectors_with_a_gap_or_another_scalar_stay_apart() -> None:
    starts = [0, 2, 5, 7]
    field = (starts, [[2]] * 4, [[1]] * 4)
    joined = join(FILL, _blocks([field], [1, 1, 1, 3]))
    assert joined.start[0].tolist() == [0, 5, 7]
    assert joined.size[0].tolist() == [[4], [2], [2]]


def test_a_row_shared_by_blocks_becomes_a_stride_of_zero() -> None:
    # 3 rows of 4 in pieces of 2 columns, plus one row for all: [row, column] of the second.
    n = 6
    start = [0, 2, 4, 6, 8, 10]
    size = [[1, 1, 2]] * n
    plain = (start, size, [[0, 0, 1]] * n)
    shared = ([0, 2, 0, 2, 0, 2], size, [[0, 0, 1]] * n)
    joined = join(BINARY_BLOCK["add"], _blocks([plain, shared, plain], None))
    assert joined.size[0].tolist() == [[1, 3, 4]]
    assert joined.stride[0].tolist() == [[0, 4, 1]]
    assert joined.stride[1].tolist() == [[0, 0, 1]]


def test_a_transposition_is_joined_in_columns_and_rows() -> None:
    # Every vertex takes 5,000 elements of one of 8 channels; they are contiguous in the result.
    n, parts, length = 8, 40, 5000
    positions = [(channel, part) for channel in range(n) for part in range(parts)]
    size = [[1, 1, length]] * len(positions)
    x = (
        [channel + n * length * part for channel, part in positions],
        size,
        [[0, 1, n]] * len(size),
    )
    starts = [length * (parts * channel + part) for channel, part in positions]
    joined = join(COPY_BLOCK, _blocks([x, (starts, size, [[0, 1, 1]] * len(size))], None))
    assert set(joined.size[0].prod(axis=1)) <= {6 * length, 2 * length}
    assert joined.size[0].prod(axis=1).sum() == n * parts * length
    assert joined.start[1][:2].tolist() == [0, 6 * length * parts]


def test_columns_of_a_reduction_are_joined_and_its_rows_are_not() -> None:
    x = ([0, 4, 8], [[1, 4, 1, 5], [1, 4, 1, 5], [1, 2, 1, 5]], [[0, 1, 0, 10]] * 3)
    out = ([0, 4, 8], [[1, 1, 4], [1, 1, 4], [1, 1, 2]], [[10, 0, 1]] * 3)
    joined = join(REDUCE["sum"], _blocks([x, out], [1, 1, 1]))
    assert joined.size[0].tolist() == [[1, 10, 1, 5]]
    rows = ([0, 2, 4], [[1, 1, 1, 2]] * 3, [[0, 0, 0, 1]] * 3)
    item = ([7, 9, 7], [[1, 1, 1]] * 3, [[1, 1, 1]] * 3)
    assert len(join(REDUCE["sum"], _blocks([rows, item], [1, 1, 1]))) == 2


def test_pieces_of_a_large_batch_stay_small() -> None:
    n, size = 100, 4096
    field = ([i * size for i in range(n)], [[size]] * n, [[1]] * n)
    joined = join(BINARY["add"], _blocks([field] * 3, None))
    assert joined.work.max() <= MOST_JOINED
    assert joined.size[0].sum() == n * size
    assert len(joined) == math.ceil(n / (MOST_JOINED // (3 * size)))


@pytest.mark.parametrize("codelet", [BINARY["add"], replace(BINARY["add"], independent=())])
def test_a_codelet_must_permit_it(codelet: Codelet) -> None:
    field = ([0, 2], [[2]] * 2, [[1]] * 2)
    assert len(join(codelet, _blocks([field] * 3, None))) == (1 if codelet.independent else 2)


@given(st.data())
def test_the_same_elements_meet(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    n_fields = 3
    few = st.integers(1, 2)
    size = [[data.draw(few) for _ in range(3)] for _ in range(n)]
    fields = []
    for _ in range(n_fields):
        start = [0]
        for v in range(n - 1):
            start.append(start[-1] + data.draw(st.sampled_from([0, 1, size[v][2], 4])))
        stride = [[data.draw(st.sampled_from([0, 4])), data.draw(few), 1] for _ in range(n)]
        fields.append((start, size, stride))
    blocks = _blocks(fields, None)
    assert _elements(join(BINARY_BLOCK["add"], blocks)) == _elements(blocks)
