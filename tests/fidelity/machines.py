"""Programs that measure the machine: exchange, host link, memory of a small program."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tests.fidelity.read_off import kind_cycles

from tilescope.engine.graph import Graph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.machine import load_machine, tile_rows
from tilescope.engine.program import Copy, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.compile import compile_programs

__all__ = ["host_link", "one_addition", "one_word"]


#: Our categories by names of the published list.
_CATEGORIES = {
    "control code": ("controlCode",),
    "host exchange code": ("hostExchangeCode",),
    "vertex code": ("vertexCode",),
    "internal exchange code": ("internalExchangeCode",),
    "variables": ("variable", "message", "controlId"),
    "vertex instances": ("vertexInstanceState",),
    "host exchange packet headers": ("hostExchangePacketHeader",),
    "instrumentation results": ("instrumentationResults",),
}


def one_word() -> Mapping[str, float]:
    """Return the cycles, after the sync, of one word to a tile of the nearest and farthest row."""
    machine = load_machine("c600")
    rows = tile_rows(machine.tiles_per_ipu, machine.exchange_rows)
    cycles = {}
    for label, row in (("nearest", 0), ("farthest", machine.exchange_rows - 1)):
        graph = Graph(machine)
        source = graph.add_variable("float32", (1,), "source")
        target = graph.add_variable("float32", (1,), "target")
        graph.map_linearly(source, tiles=[2])
        graph.map_linearly(target, tiles=[int(np.flatnonzero(rows == row)[0])])
        compiled = compile_programs(graph, [Copy(source, target)])
        cycles[f"one word to the {label} row after the sync"] = kind_cycles(compiled, "DoExchange")
    return cycles


def host_link() -> Mapping[str, float]:
    """Return the rate of a stream of 40 MB to the device, GB/s."""
    rates = {}
    for label, parameter_set in (("IPU Model", "ipu_model"), ("hardware", "hardware")):
        machine = load_machine("gc200", parameter_set=parameter_set)
        graph = Graph(machine)
        data = graph.add_variable("float32", (10_000_000,), "data")
        graph.map_linearly(data)
        compiled = compile_programs(graph, [StreamCopyIn("data", data)])
        seconds = kind_cycles(compiled, "StreamCopyMid") / machine.clock_hz
        rates[label] = data.variable.n_bytes / seconds / 1e9
    return rates


def one_addition() -> Mapping[str, float]:
    """Return the memory of a program that takes two pairs of floats and returns their sum."""
    graph = Graph(load_machine("gc2"))
    program = Sequence("main")
    a, b = (graph.add_variable("float32", (2,), name) for name in ("a", "b"))
    for name, operand in (("a", a), ("b", b)):
        graph.map_linearly(operand, grain=2)
        program.add(StreamCopyIn(name, operand))
    total = binary(Builder(graph, program), "add", a, b, (2,))
    program.add(StreamCopyOut(total, "sum"))
    memory = compile_programs(graph, [program]).memory
    stack = memory.categories["stack"].sum(axis=0)
    by_category = {
        name: sum(int(memory.categories[category].sum()) for category in categories) / 1e3
        for name, categories in _CATEGORIES.items()
    }
    return {
        "stack of a tile": int(np.unique(stack).item()),
        "all tiles, excluding gaps": int(memory.excluding_gaps.sum()) / 1e6,
        **by_category,
    }
