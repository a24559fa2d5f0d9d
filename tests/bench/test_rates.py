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
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._addresses import address
from tilescope.engine.host.kernels._block_emitter import BlockEmitter
from tilescope.engine.host.kernels._lanes import (
    dot_kernel,
    each_kernel,
    row_kernel,
)

_PIXELS, _COUNT, _ROUNDS = 16, 128, 20_000

#: Name, kernel, outputs per pixel, and whether every output has an input of its own.
_KERNELS = [
    ("16 outputs", row_kernel(16, 2), 16, False),
    ("8 outputs", row_kernel(8, 1), 8, False),
    ("4 outputs", row_kernel(4, 1), 4, False),
    ("1 output", row_kernel(1, 1), 1, False),
    ("dot product", dot_kernel(1), 1, False),
    ("four dot products", dot_kernel(4), 4, False),
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
    process = subprocess.run(
        [sys.executable, "-c", _BLAS], env=alone, capture_output=True, text=True, check=True
    )
    return float(process.stdout)


#: Floats that a vector holds.
_LANES = 16
#: Independent sums of the loop that measures the peak: more than a processor has in progress.
_SUMS = 12


@intrinsic
def _fused_only(_context, out, n_rounds):
    """Add products to sums in registers, without any load."""

    def generate(context, builder, signature, arguments):
        emitter = BlockEmitter(builder, {}, _LANES)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        factor = emitter.load(data, is_wide=True)
        zero, item = ir.IntType(64)(0), ir.IntType(64)(1)

        def multiply(_: Any, sums: list[Any]) -> list[Any]:
            emitter.keep()
            return [emitter.fused(factor, factor, total) for total in sums]

        sums = emitter.loop(arguments[1], [(zero, item)], [factor] * _SUMS, multiply)[1]
        for k, total in enumerate(sums):
            emitter.store_vector(total, builder.gep(data, [ir.IntType(64)(k * _LANES)]))
        return context.get_dummy_value()

    return types.void(out, n_rounds), generate


@functools.cache
def _peak_rate() -> float:
    """Return the products per second of one core that does nothing else."""

    @jit
    def run(out, n_rounds):
        _fused_only(out, n_rounds)  # type: ignore[call-arg]  # numba passes the context

    out, n_rounds = np.zeros(_SUMS * _LANES, np.float32), 10_000_000
    run(out, 1)
    began = process_time()
    run(out, n_rounds)
    return n_rounds * out.size / (process_time() - began)


def _say(name: str, rate: float) -> None:
    sys.stdout.write(
        f"\n{name}: {rate / 1e9:.1f} GMAC/s on one thread; the core's peak"
        f" {_peak_rate() / 1e9:.1f}, BLAS {_blas_rate() / 1e9:.1f}\n"
    )


@pytest.mark.parametrize(("name", "kernel", "n_lanes", "is_each"), _KERNELS, ids=str)
def test_rate(name: str, kernel: Any, n_lanes: int, is_each: bool) -> None:
    @jit
    def run(out, x, w, places, out_places, tap_x, tap_w, count, n_rounds):
        for _ in range(n_rounds):
            kernel(address(out, 0), address(out_places, 0), n_lanes // 2, address(x, 0),
                   address(places, 0), 1, address(w, 0), w_pitch, n_lanes // 2,
                   address(tap_x, 0), address(tap_w, 0), tap_x.size, count,
                   places.size)  # fmt: skip

    w_pitch = n_lanes
    random = np.random.default_rng(0)
    x, w = (random.random(_PIXELS * _COUNT + 16).astype(np.float32) for _ in range(2))
    out, positions = np.zeros(2 * _PIXELS * n_lanes, np.float32), np.arange(_PIXELS)
    # A depthwise kernel iterates over taps, the others over inputs.
    taps = np.arange(_COUNT if is_each else 1) * (n_lanes if is_each else 0)
    data = (out, x, w, positions * (0 if is_each else _COUNT), positions * n_lanes, taps, taps)
    count = 1 if is_each else _COUNT
    run(*data, count, 1)
    began = process_time()
    run(*data, count, _ROUNDS)
    rate = _ROUNDS * _PIXELS * _COUNT * n_lanes / (process_time() - began)
    _say(name, rate)
    assert rate > 0
