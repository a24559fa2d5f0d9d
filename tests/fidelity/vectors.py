"""Programs of elementwise operations, copies and an author's own codelets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import compute_cycles, kind_cycles

from tilescope.engine.codelets.define import codelet
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph, blocks, float8
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.softmax import softmax as library_softmax
from tilescope.engine.library.popops.elementwise.operations import binary, cast
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Copy, Execute, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = ["addition", "float8_cast", "scores_copy", "scores_exchange", "softmax", "triad"]

Law = Callable[[Batch, Machine], NDArray[np.int64]]


def addition() -> Mapping[str, float]:
    """Return the cycles of an addition of 1,024 floats a tile, on few and on many tiles."""
    cycles = {}
    for label, n_tiles in (("4 tiles", 4), ("1,024 tiles", 1024)):
        graph = Graph(load_machine("bow"))
        a, b = (graph.add_variable("float32", (n_tiles * 1024,), name) for name in ("a", "b"))
        for operand in (a, b):
            graph.map_linearly(operand, grain=1024, tiles=range(n_tiles))
        program = Sequence("main")
        binary(Builder(graph, program), "add", a, b, a.shape)
        cycles[label] = compute_cycles(compile_programs(graph, [program]))
    return cycles


def float8_cast() -> Mapping[str, float]:
    """Return the cycles of casts from half to float8, evenly split over many tiles."""
    cycles = {}
    for label, share, n_tiles in (
        ("592 bytes a tile", 592, 1440),
        ("2,144 bytes a tile", 2144, 1464),
    ):
        graph = Graph(load_machine("c600"))
        x = graph.add_variable("float16", (n_tiles * share,), "x")
        graph.map_linearly(x, grain=share, tiles=range(n_tiles))
        program = Sequence("main")
        cast(Builder(graph, program), x, float8())
        cycles[label] = compute_cycles(compile_programs(graph, [program]))
    return cycles


def _triad_codelet(per_loop: int) -> Codelet:
    """Return a + s b by 6 instructions a loop: two loads, multiply, add, store, branch."""

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        return np.asarray(20 + 6 * -(-batch.size["out"][:, 0] // per_loop))

    @codelet(
        Field("a", "in"),
        Field("b", "in"),
        Field("out", "out"),
        law=law,
        code_bytes=120,
        name=f"Triad<{per_loop}>",
    )
    def triad_vertex(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = a[i] + np.float32(0.4) * b[i]

    return triad_vertex


def triad() -> Mapping[str, float]:
    """Return the rate of reads and writes of all tiles, TB/s."""
    machine = load_machine("gc2")
    per_vertex = 1_536
    rates = {}
    for label, per_loop in (("one float at a time, GC2", 1), ("two floats at a time, GC2", 2)):
        graph = Graph(machine)
        n = machine.n_tiles * machine.n_worker_contexts
        tile = np.repeat(np.arange(machine.n_tiles), machine.n_worker_contexts)
        start = np.arange(n, dtype=np.int64) * per_vertex
        fields = {}
        for name in ("a", "b", "out"):
            tensor = graph.add_variable("float32", (n * per_vertex,), name)
            graph.set_tile_mapping(tensor, start, tile)
            fields[name] = blocks(tensor.variable, start, [per_vertex], [1], n)
        compute_set = graph.add_compute_set("triad")
        graph.add_vertices(compute_set, _triad_codelet(per_loop), tile, fields)
        compiled = compile_programs(graph, [Execute(compute_set)])
        seconds = compute_cycles(compiled) / machine.clock_hz
        n_bytes = sum(regions.variable.n_bytes for regions in fields.values())
        rates[label] = n_bytes / seconds / 1e12
    return rates | {"assembly, GC200": _scaled_addition_rate()}


def _scaled_addition_rate() -> float:
    """Return the rate of the library's scaled addition over 45,000 floats a tile, TB/s."""
    machine = load_machine("gc200")
    per_tile = 45_000  # six workers' 7,500, as published
    graph = Graph(machine)
    a, b = (graph.add_variable("float32", (machine.n_tiles * per_tile,), name) for name in "ab")
    for operand in (a, b):
        graph.map_linearly(operand, grain=per_tile)
    program = Sequence("main")
    scaled_add(Builder(graph, program), a, b, 0.4, optimise_for_speed=True)
    seconds = compute_cycles(compile_programs(graph, [program])) / machine.clock_hz
    n_bytes = 2 * a.variable.n_bytes + b.variable.n_bytes  # a is read and written
    return n_bytes / seconds / 1e12


def _scores_to_rows() -> Executable:
    """Compile the copy of attention scores from blocks of a product to whole rows.

    The 729 x 736 scores of a head are on 2 x 46 tiles in blocks of 16 columns, then on 1,458 tiles
    of 8 whole rows.
    """
    heads, n_rows, n_groups, group = 16, 729, 46, 16
    graph = Graph(load_machine("c600"))
    scores = graph.add_variable("float16", (heads, n_groups, n_rows, group), "scores")
    part = np.arange(heads * n_groups * 2)
    block, half = part // 2, part % 2
    graph.set_tile_mapping(
        scores,
        (block * n_rows + half * 365) * group,
        block // n_groups * 92 + half * 46 + block % n_groups,
    )
    rows = graph.add_variable("float16", (heads * n_rows, n_groups * group), "rows")
    graph.map_linearly(rows, grain=8 * n_groups * group)
    source = scores.dim_shuffle(0, 2, 1, 3).reshape(heads, n_rows, n_groups, group)
    target = rows.reshape(heads, n_rows, n_groups, group)
    return compile_programs(graph, [Copy(source, target, "scoresToRows")])


def scores_exchange() -> Mapping[str, float]:
    """Return the cycles of the exchange that brings scores to their rows, with its sync."""
    built = _scores_to_rows()
    return {"phase": kind_cycles(built, "Sync") + kind_cycles(built, "DoExchange")}


def scores_copy() -> Mapping[str, float]:
    """Return the cycles of the copy on the tiles after that exchange."""
    return {"copy": compute_cycles(_scores_to_rows())}


def softmax() -> Mapping[str, float]:
    """Return the cycles of the compute sets of a softmax over rows of 736 halves."""
    n_rows, n_columns = 8 * 1_458, 736
    graph = Graph(load_machine("c600"))
    x = graph.add_variable("float16", (n_rows, n_columns), "x")
    graph.map_linearly(x, grain=8 * n_columns)
    program = Sequence("main")
    build = Builder(graph, program)
    library_softmax(build, x)
    return {"compute sets": compute_cycles(compile_programs(graph, [program]))}
