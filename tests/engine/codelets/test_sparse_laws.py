"""Laws of sparse vertices against numbers computed from the cited estimators."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import load_machine
from tilescope.engine.codelets.popsparse.bucket import Work
from tilescope.engine.codelets.popsparse.dynamic_product import forward_cycles
from tilescope.engine.codelets.popsparse.static_product import static_product_cycles


@pytest.mark.parametrize(
    ("rows", "blocks", "n", "size", "item", "cycles"),
    [
        # Two rows of elements for a worker, five in each: vectors of 8 and 4 halves, and others.
        (12, 60, 8, 1, 2, 6 * (31 + 2 * (8 + 4 * 3))),
        (12, 60, 4, 1, 2, 6 * (31 + 2 * (7 + 4 * 2))),
        (12, 60, 12, 1, 2, 6 * (33 + 2 * (11 + (14 + 4 * 3) + (9 + 4 * 2)))),
        (12, 60, 4, 1, 4, 6 * (30 + 2 * (6 + 4 * 3))),
        # Three rows or fewer: half of the workers has them, and half of the columns.
        (3, 15, 16, 1, 2, 6 * (31 + 1 * (8 + 4 * 3))),
        # Eleven of 64 columns for a worker; a block of 16 x 16 halves is loaded in 64 cycles.
        (2, 5, 64, 16, 2, 30 + 13 * 6 + 2 * (6 + 17) + 5 * (16 + 64 + (19 + 10 * 4) * 6)),
        (2, 5, 64, 4, 4, 30 + 13 * 6 + 2 * (6 + 17) + 5 * (16 + 8 + (12 + 10 * 4) * 6)),
        # Sums of floats are zeroed first: 2 rows of blocks are 512 pairs, 86 for a worker.
        (
            2, 5, 64, 8, 4,
            30 + 13 * 6 + 2 * (4 * 6 + 17) + 5 * (16 + 32 + (19 + 10 * 8) * 6) + (12 + 86) * 6,
        ),
    ],
)  # fmt: skip
def test_static_products(rows: int, blocks: int, n: int, size: int, item: int, cycles: int) -> None:
    machine = load_machine("gc200")
    on_tile, stored, columns = (np.array([count]) for count in (rows, blocks, n))
    actual = static_product_cycles(on_tile, stored, columns, size, item, machine)
    assert actual.tolist() == [cycles]


@pytest.mark.parametrize(
    ("work", "n", "size", "item", "cycles"),
    [
        # The groups of a bucket, and two rows of elements for a worker.
        ((12, 60, 0), 4, 1, 4, 30 + 93 + 6 * (25 + 2 * (13 + 3 * 5))),
        ((12, 60, 2), 8, 1, 2, 30 + 2 * 32 + 93 + 6 * (28 + 2 * (15 + 3 * 5))),
        ((0, 0, 3), 8, 1, 2, 30 + 3 * 32),
        # Two columns for a worker; a block of 8 x 8 halves is loaded in 16 cycles.
        (
            (2, 5, 0), 12, 8, 2,
            40 + 102 + 5 * (16 + 3 + 12) + 2 + 2 + 6 * (20 + 5 * (23 + 2 * 4 - 3)),
        ),
    ],
)  # fmt: skip
def test_dynamic_products(
    work: tuple[int, int, int], n: int, size: int, item: int, cycles: int
) -> None:
    machine = load_machine("gc200")
    counts = Work(*(np.array([count]) for count in work))
    assert forward_cycles(counts, np.array([n]), size, item, machine).tolist() == [cycles]
