"""Cost of a graph by number of vertices and IPUs, and of a single step of the run loop.

Prints figures and never fails on time. Every size runs in its own process, so that its memory can
be measured; kernels are compiled before timing. Figures are medians, of seven rounds for whole
programs and of three for parts of the compiler; a step is measured in processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Repeat

_ROOT = Path(__file__).parents[2]

_BUILD = """
import json, resource, sys
from time import perf_counter, process_time
import numpy as np
from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Repeat, Sequence

OPTIONS = resolve_options(environ={})
ELEMENTS = 8  # of a vertex


def build(n, n_ipus):
    \"\"\"A ring of chunks: every vertex reads a chunk that starts in its neighbour's.\"\"\"
    graph = Graph(load_machine("gc200", n_ipus=n_ipus))
    total = n * ELEMENTS
    x = graph.add_variable("float32", (total + ELEMENTS,), "x")
    out = graph.add_variable("float32", (total,), "out")
    graph.map_linearly(x, grain=ELEMENTS)
    graph.map_linearly(out, grain=ELEMENTS)
    start = np.arange(n, dtype=np.int64) * ELEMENTS
    compute_set = graph.add_compute_set("shift")
    graph.add_vertices(
        compute_set,
        COPY,
        out.variable.tile_of(start),
        {
            "x": blocks(x.variable, start + 3, [ELEMENTS], [1], n),
            "out": blocks(out.variable, start, [ELEMENTS], [1], n),
        },
    )
    return graph, Execute(compute_set), x, out


def measure(n, n_ipus):
    marks, worked = [perf_counter()], process_time()
    graph, program, x, out = build(n, n_ipus)
    marks.append(perf_counter())
    executable = compile_programs(graph, [program])
    marks.append(perf_counter())
    with Engine(executable, OPTIONS) as engine:
        engine.load()
        marks.append(perf_counter())
        engine.run()
        marks.append(perf_counter())
        worked = process_time() - worked
        values = np.arange(x.n_elements, dtype=np.float32)
        engine.write_tensor(x, values)
        engine.run()
        assert (engine.read_tensor(out) == values[3 : 3 + out.n_elements]).all()
    return [b - a for a, b in zip(marks, marks[1:])] + [marks[-1] - marks[0], worked]
"""

_VERTICES = (
    _BUILD
    + """
n, n_ipus = int(sys.argv[1]), int(sys.argv[2])
measure(3000, n_ipus)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measure(n, n_ipus)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rounds = [measure(n, n_ipus) for _ in range(7)]
parts = [sorted(times)[3] for times in zip(*rounds)]
build_s, compile_s, load_s, run_s, whole_s, worked_s = parts
print(json.dumps({
    "build_s": build_s, "compile_s": compile_s, "load_s": load_s, "run_s": run_s,
    "whole_s": whole_s, "worked_s": worked_s,
    "megabytes": (after - before) / 1024,
}))
"""
)

_STEPS = (
    _BUILD
    + """
from tilescope.engine.graph import INT32
from tilescope.engine.program import If

N = 20_000


def seconds(program, graph, prepare):
    with Engine(compile_programs(graph, [program]), OPTIONS) as engine:
        prepare(engine)
        engine.run()
        times = []
        for _ in range(3):
            began = process_time()
            engine.run()
            times.append(process_time() - began)
        steps = sum(int(t.count.sum()) for t in engine.timelines()) // graph.machine.n_ipus
        return min(times) / steps


graph, program, _, _ = build(1472, 1)
static_s = seconds(Repeat(N, program), graph, lambda engine: None)
flag = graph.add_variable(INT32, (1,), "flag")
graph.set_tile_mapping(flag, [0], [0])
decided = Repeat(N, If(flag, program, Sequence("nothing")))
decided_s = seconds(decided, graph, lambda engine: engine.write_tensor(flag, [1]))
print(json.dumps({"static_s": static_s, "decided_s": decided_s}))
"""
)

_INFERENCE = (
    _BUILD
    + """
from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import exchange_of
from tilescope.engine.compiler.memory.liveness import live_ranges
from tilescope.engine.compiler.lower.lowering import Lowering
from tilescope.engine.compiler.memory.layout import lay_out
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import GraphCopy
from tilescope.engine.session.expand import expand_programs


def once(n, n_ipus):
    graph, program, _, _ = build(n, n_ipus)
    image, expanded = expand_programs(GraphCopy(graph), [program])
    lowering = Lowering(image, PhaseCosts(graph.machine))
    roots = lowering.lower(expanded)
    addresses = Addresses(image.variables)
    began = perf_counter()
    moved = exchange_of(image.compute_sets, addresses, is_input=True)
    cost = moved.cost(graph.machine, moved.schedule(graph.machine))
    inferred = perf_counter()
    liveness = live_ranges(image, roots)
    lay_out(image, lowering.steps, liveness, is_instrumented=True)
    done = perf_counter()
    assert cost.received_bytes.sum() == cost.sent_bytes.sum() > 0
    return {"exchange_s": inferred - began, "allocation_s": done - inferred}


n, n_ipus = int(sys.argv[1]), int(sys.argv[2])
once(1000, n_ipus)
rounds = [once(n, n_ipus) for _ in range(3)]
print(json.dumps({key: sorted(times[key] for times in rounds)[1] for key in rounds[0]}))
"""
)


def measured(code: str, *arguments: int) -> dict[str, float]:
    """Run a measurement in its own process and return what it printed."""
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    results: dict[str, float] = json.loads(process.stdout)
    return results


@pytest.mark.parametrize("n_vertices", [10_000, 100_000, 1_000_000])
def test_vertices_are_built_compiled_and_run(n_vertices: int) -> None:
    actual = measured(_VERTICES, n_vertices, 1)
    whole_s, worked_s = actual["whole_s"], actual["worked_s"]
    sys.stdout.write(
        f"\n{n_vertices:,} vertices: built {actual['build_s']:.3f} s,"
        f" compiled {actual['compile_s']:.3f} s, loaded {actual['load_s']:.3f} s,"
        f" run {actual['run_s']:.3f} s; {whole_s / n_vertices * 1e6:.2f} us per vertex in total,"
        f" {worked_s / n_vertices * 1e6:.2f} us of processor time at load {os.getloadavg()[0]:.1f};"
        f" {actual['megabytes']:.0f} MB,"
        f" {actual['megabytes'] * 2**20 / n_vertices:.0f} bytes per vertex\n"
    )
    assert whole_s > 0


def test_a_step_of_the_run_loop() -> None:
    actual = measured(_STEPS)
    sys.stdout.write(
        f"\na single step: {actual['static_s'] * 1e6:.2f} us of processor time (goal 5 us);"
        f" data-dependent {actual['decided_s'] * 1e6:.2f} us\n"
    )
    assert actual["static_s"] > 0


def _law(batch: Any, _machine: Any) -> NDArray[np.int64]:
    cycles: NDArray[np.int64] = 5 + batch.counts
    return cycles


@engine.codelet(engine.Field("x", "inout"), law=_law, code_bytes=20)
def static_step(x):
    x[0] = (x[0] * 5 + 3) % 64


@engine.codelet(engine.Field("x", "inout"), law=_law, code_bytes=20, is_data_dependent=True)
def counted_step(x):
    x[0] = (x[0] * 5 + 3) % 64
    return x[0]


def _step_s(codelet: Any, n_vertices: int, n_rounds: int) -> float:
    """Return the seconds of one execution of a step, the best of several runs."""
    graph = engine.Graph(engine.load_machine("gc200"))
    x = graph.add_variable("int32", (n_vertices,), "x")
    graph.map_linearly(x)
    vertex = np.arange(n_vertices)
    compute_set = graph.add_compute_set("step")
    fields = {"x": blocks(x.variable, vertex, [1], [1], n_vertices)}
    graph.add_vertices(compute_set, codelet, x.variable.tile_of(vertex), fields)
    executable = engine.compile_programs(graph, [Repeat(n_rounds, Execute(compute_set))])
    times = []
    with engine.Engine(executable, engine.resolve_options()) as device:
        for _ in range(8):
            began = perf_counter()
            device.run()
            times.append(perf_counter() - began)
    return min(times) / n_rounds


def test_a_step_whose_cycles_data_decide() -> None:
    static_s, counted_s = (_step_s(step, 8_832, 500) for step in (static_step, counted_step))
    sys.stdout.write(
        f"\na step of 8,832 vertices: {static_s * 1e6:.1f} us; with data-dependent cycles"
        f" {counted_s * 1e6:.1f} us\n"
    )
    assert counted_s > 0


@pytest.mark.parametrize("n_ipus", [1, 4, 16])
@pytest.mark.parametrize("n_vertices", [10_000, 100_000, 1_000_000])
def test_exchange_and_allocation_by_ipus(n_vertices: int, n_ipus: int) -> None:
    actual = measured(_INFERENCE, n_vertices, n_ipus)
    sys.stdout.write(
        f"\n{n_ipus} IPUs, {n_vertices:,} vertices:"
        f" exchange inferred in {actual['exchange_s'] * 1e3:.1f} ms"
        f" ({actual['exchange_s'] / n_vertices * 1e9:.0f} ns per vertex),"
        f" liveness and allocation in {actual['allocation_s'] * 1e3:.1f} ms"
        f" ({actual['allocation_s'] / n_vertices * 1e9:.0f} ns per vertex)\n"
    )
    assert actual["exchange_s"] > 0
