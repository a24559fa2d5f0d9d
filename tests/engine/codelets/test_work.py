"""How workers share a field: compared with a walk over its rows."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets.poplin.work import slowest_and_quickest


def _walked(n_rows: int, n_columns: int, n_workers: int, cycles_of_part: list[int]) -> list[int]:
    """Return the cycles of every worker, who pays for every part of a row."""
    total, results = n_rows * n_columns, []
    for worker in range(n_workers):
        local = range(worker * total // n_workers, (worker + 1) * total // n_workers)
        rows = [element // n_columns for element in local]
        results.append(sum(cycles_of_part[rows.count(row)] for row in set(rows)))
    return results


@pytest.mark.parametrize("n_workers", [1, 3, 6])
def test_workers_pay_for_every_part_of_a_row(n_workers: int) -> None:
    random = np.random.default_rng(n_workers)
    cycles_of_part = random.integers(1, 100, 20)
    rows, columns = random.integers(0, 7, 300), random.integers(0, 20, 300)
    slowest, quickest = slowest_and_quickest(rows, columns, n_workers, cycles_of_part)
    for row, column, maximum, minimum in zip(rows, columns, slowest, quickest, strict=True):
        walked = _walked(int(row), int(column), n_workers, cycles_of_part.tolist())
        assert (maximum, minimum) == (max(walked), min(walked))
