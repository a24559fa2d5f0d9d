"""Rates of the innermost kernels of products on cached data, beside BLAS. Never fails on time."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from time import process_time
from typing import Any

import numpy as np
import pytest

from tilescope.engine.codelets._lanes import dot_kernel, each_kernel, row_kernel
from tilescope.engine.jit._jit import jit

_PIXELS, _COUNT, _ROUNDS = 16, 128, 20_000

#: Name, kernel, outputs per pixel, and whether every output has an input of its own.
_KERNELS = [
    ("16 outputs", row_kernel(16), 16, False),
    ("8 outputs", row_kernel(8), 8, False),
    ("4 outputs", row_kernel(4), 4, False),
    ("1 output", row_kernel(1), 1, False),
    ("dot product", dot_kernel(), 1, False),
    ("depthwise, 16 channels", each_kernel(16), 16, True),
]


_BLAS = """
from statistics import median
from time import process_time
import numpy as np
a = np.ones((512, 512), np.float32)
times = []
for _ in range(20):
    began = process_time()
    a @ a
    times.append(process_time() - began)
print(512**3 / median(times))
"""


@functools.cache
def _blas_rate() -> float:
    """Return BLAS's products per second on one thread, in a process of its own."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _BLAS], env=alone, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.parametrize(("name", "kernel", "n_lanes", "is_each"), _KERNELS, ids=str)
def test_rate(name: str, kernel: Any, n_lanes: int, is_each: bool) -> None:
    @jit
    def run(out, x, w, places, out_places, tap_x, tap_w, count, n_rounds):
        for _ in range(n_rounds):
            kernel(out, 0, out_places, x, 0, places, 1, w, 0, w_pitch, tap_x, tap_w,
                   tap_x.size, count, places.size)  # fmt: skip

    w_pitch = n_lanes
    random = np.random.default_rng(0)
    x, w = (random.random(_PIXELS * _COUNT + 16).astype(np.float32) for _ in range(2))
    out, places = np.zeros(_PIXELS * n_lanes, np.float32), np.arange(_PIXELS)
    # A depthwise kernel iterates over taps, the others over inputs.
    taps = np.arange(_COUNT if is_each else 1) * (n_lanes if is_each else 0)
    data = (out, x, w, places * (0 if is_each else _COUNT), places * n_lanes, taps, taps)
    count = 1 if is_each else _COUNT
    run(*data, count, 1)
    began = process_time()
    run(*data, count, _ROUNDS)
    rate = _ROUNDS * _PIXELS * _COUNT * n_lanes / (process_time() - began)
    sys.stdout.write(
        f"\n{name}: {rate / 1e9:.1f} GMAC/s on one thread; BLAS {_blas_rate() / 1e9:.1f}\n"
    )
    assert rate > 0
