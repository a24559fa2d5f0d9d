"""Block kernels of products at all alignments of their operands."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets._lanes import LANES, PIXELS, block_kernels
from tilescope.engine.jit._jit import jit

BLOCKS = block_kernels()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("pixels", PIXELS)
def test_a_block_adds_its_product_at_any_alignment(pixels: int, lanes: int) -> None:
    block = BLOCKS[pixels, lanes]

    @jit
    def run(out, at, x, w, count):
        block(out, at, 20, x, 1, 40, 2, w, 3, 18, count)

    random = np.random.default_rng(pixels * lanes)
    for at in range(17):
        for count in (0, 1, 2, 9):
            out = random.integers(-4, 4, at + 20 * pixels + 16).astype(np.float32)
            x = random.integers(-4, 4, 1 + 40 * pixels).astype(np.float32)
            w = random.integers(-4, 4, 3 + 18 * max(count, 1)).astype(np.float32)
            expected = out.copy()
            for p in range(pixels):
                for i in range(count):
                    row = w[3 + i * 18 : 3 + i * 18 + lanes]
                    expected[at + p * 20 : at + p * 20 + lanes] += x[1 + p * 40 + i * 2] * row
            run(out, at, x, w, count)
            assert out.tolist() == expected.tolist()
