"""Many steps on many IPUs: memory and time of the compiler. Fails on memory, never on time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
#: Memory limit for 10,000 steps on 64 IPUs, bytes.
_MOST_BYTES = 2 << 30

_CODE = """
import json, resource, sys
from time import process_time

import numpy as np

from tilescope.engine import Graph, compile_programs, load_machine
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Sequence, Sync

N_VARIABLES = 8


def pipeline(graph, n_steps):
    "Return stages on consecutive IPUs, with a sync, an exchange and a compute set per stage."
    n = graph.machine.tiles_per_ipu
    element, ids = np.arange(n), range(N_VARIABLES)
    stages = [graph.add_variable("float32", (n,), f"stage {i}") for i in ids]
    for i in ids:
        graph.map_linearly(stages[i], tiles=element + i * n)
    program = Sequence("pipeline")
    for i in range(n_steps // 3):
        source, target = stages[i % N_VARIABLES], stages[(i + 1) % N_VARIABLES]
        compute_set = graph.add_compute_set(f"stage {i}")
        fields = {
            "x": blocks(source.variable, (element + i) % n, [1], [1], n),
            "out": blocks(target.variable, element, [1], [1], n),
        }
        tiles = element + (i + 1) % N_VARIABLES * n
        graph.add_vertices(compute_set, COPY, tiles, fields)
        program.add(Execute(compute_set))
    return program


def syncs(graph, n_steps):
    return Sequence("syncs", [Sync() for _ in range(n_steps)])


kind, n_ipus, n_steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
graph = Graph(load_machine("gc200", n_ipus=n_ipus))
program = {"syncs": syncs, "pipeline": pipeline}[kind](graph, n_steps)
began = process_time()
executable = compile_programs(graph, [program])
print(json.dumps({
    "compile_s": process_time() - began,
    "n_steps": len(executable.steps),
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""


@pytest.mark.parametrize("n_ipus", [8, 64])
@pytest.mark.parametrize("kind", ["syncs", "pipeline"])
def test_many_steps_on_many_ipus(kind: str, n_ipus: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", _CODE, kind, str(n_ipus), "10002"],
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'compat'}:{_ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    actual = json.loads(process.stdout)
    sys.stdout.write(
        f"\n{actual['n_steps']:,} steps ({kind}) on {n_ipus} IPUs: compiled in"
        f" {actual['compile_s']:.1f} s of processor time, {actual['peak_bytes'] / 2**20:,.0f} MiB\n"
    )
    assert actual["peak_bytes"] < _MOST_BYTES
