"""Control code: the tiles of an IPU have that of the steps which it takes part in."""

import numpy as np

from tilescope.engine import Graph, compile_programs, load_machine
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Sequence, StreamCopyIn


def test_tiles_have_no_code_for_what_other_ipus_do_alone() -> None:
    machine = load_machine("gc200", n_ipus=2, tiles_per_ipu=4)
    graph = Graph(machine)
    x = graph.add_variable("float32", (16,), "x")
    graph.map_linearly(x, tiles=range(4))
    program = Sequence("main", [StreamCopyIn("x", x)])
    builder = Builder(graph, program).on_tiles(range(4))
    unary(builder, "exp", unary(builder, "exp", x))
    executable = compile_programs(graph, [program])
    kinds = [step.kind for step in executable.steps]
    assert (
        kinds
        == [*(f"StreamCopy{part}" for part in ("Begin", "Mid", "End"))] + ["OnTileExecute"] * 2
    )
    by_tile = executable.memory.categories["controlCode"].sum(axis=0)
    per_step = machine.control_code_bytes_per_step
    fixed = machine.control_code_bytes
    np.testing.assert_array_equal(by_tile[:4], fixed + 5 * per_step)
    np.testing.assert_array_equal(by_tile[4:], fixed + 3 * per_step)
