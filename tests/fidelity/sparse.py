"""Sparse products of a published benchmark: rates, and how many times those of dense ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from tests.fidelity.read_off import total_cycles

from tilescope.engine.graph import Graph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.allocators import (
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popsparse.static_product import (
    create_sparse_dense_matmul_lhs,
    create_sparse_dense_matmul_rhs,
    sparse_dense_matmul,
)
from tilescope.engine.library.sparse_matrix import CsrMatrix
from tilescope.engine.library.sparse_tensor import StaticMatMulParams
from tilescope.engine.machine import load_machine
from tilescope.engine.planner.sparse.pattern import BlockPattern
from tilescope.engine.program import Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = ["static_rates"]

#: Rows and columns of the matrix.
_SIZE = 4096
#: Columns of the dense operand with the highest rate of 256, 512, 1024, 2048 and 4096 that fit.
_BEST = {
    ("half", 16): {4: 2048, 8: 2048, 16: 4096, 32: 4096},
    ("half", 1): {4: 1024, 8: 2048, 16: 2048, 32: 2048},
    ("float", 16): {16: 1024},
    ("float", 1): {16: 1024},
}
_BEST_DENSE = {"half": 1024, "float": 256}
_DTYPES = {"half": "float16", "float": "float32"}


def _builder() -> Builder:
    return Builder(Graph(load_machine("bow")), Sequence("main"))


def _rate(builder: Builder, flops: float) -> float:
    """Return TFLOP/s of a program that computes so many."""
    executable = compile_programs(builder.graph, [builder.sequence])
    return flops / total_cycles(executable) * builder.graph.machine.clock_hz / 1e12


@cache
def _dense_rate(kind: str) -> float:
    """Return TFLOP/s of the dense product, with sums in half where operands are."""
    builder, n, dtype = _builder(), _BEST_DENSE[kind], _DTYPES[kind]
    shapes = (1, _SIZE, _SIZE), (1, _SIZE, n)
    a = create_matmul_input_lhs(builder, *shapes, dtype=dtype, partials_type=kind)
    b = create_matmul_input_rhs(builder, *shapes[::-1], dtype=dtype, partials_type=kind)
    matmul(builder, a, b, partials_type=kind)
    return _rate(builder, 2 * _SIZE**2 * n)


def _static_rate(kind: str, size: int, reciprocal: int) -> float:
    """Return TFLOP/s of values that are not zero, in blocks at random places."""
    n, dtype = _BEST[kind, size][reciprocal], _DTYPES[kind]
    across = _SIZE // size
    n_blocks = across * across // reciprocal
    places = np.random.default_rng(0).choice(across * across, n_blocks, replace=False)
    places.sort()
    pattern = BlockPattern(_SIZE, _SIZE, size, places // across, places % across)
    matrix = CsrMatrix.of_blocks(pattern, np.zeros((n_blocks, size, size), np.float32))
    params, builder = StaticMatMulParams(_SIZE, _SIZE, n), _builder()
    lhs = create_sparse_dense_matmul_lhs(builder, params, matrix, dtype=dtype)
    rhs = create_sparse_dense_matmul_rhs(builder, params, matrix, dtype=dtype)
    sparse_dense_matmul(builder, lhs, rhs)
    return _rate(builder, 2 * pattern.n_values * n)


def static_rates() -> Mapping[str, float]:
    """Return TFLOP/s by size of a block and density, and rates over those of dense products."""
    rates = {
        (kind, size, density): _static_rate(kind, size, density)
        for (kind, size), by_density in _BEST.items()
        for density in by_density
    }
    named = {
        f"{kind}, blocks of {size}, density 1/{density}": rate
        for (kind, size, density), rate in rates.items()
        if kind == "half"
    }
    named["half, dense"] = _dense_rate("half")
    for kind, size in _BEST:
        over = 16 * rates[kind, size, 16] / _dense_rate(kind)
        named[f"{kind}, blocks of {size}, density 1/16, over dense"] = over
    return named
