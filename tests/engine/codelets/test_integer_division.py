"""Quotients of integers are truncated, also by a scalar: not products with a reciprocal."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

X = np.concatenate([np.arange(-120, 121), [2**31 - 1, -(2**31)]]).astype(np.int32)


@pytest.mark.parametrize("divisor", [1, 3, 7, 49, -49, 97, 2**31 - 1])
def test_a_quotient_by_a_scalar(divisor: int) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    sequence = Sequence("main")
    builder = Builder(graph, sequence)
    x = graph.add_variable("int32", X.shape, "x")
    builder.spread(x)
    by = graph.add_constant(np.array([divisor], np.int32), "by")
    graph.set_tile_mapping(by, [0], [0])
    sequence.add(StreamCopyIn("x", x))
    sequence.add(StreamCopyOut(binary(builder, "divide", x, by, X.shape), "y"))
    with Engine(compile_programs(graph, [sequence]), resolve_options(environ={})) as engine:
        engine.connect_stream("x", X)
        engine.run(0)
        output = engine.output("y")
    wide = X.astype(np.int64)
    assert np.array_equal(output, np.sign(wide * divisor) * (np.abs(wide) // abs(divisor)))
