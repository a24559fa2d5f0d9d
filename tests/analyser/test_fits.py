"""Whether a program fits has one definition: engine, metrics, insights and pva agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pva
from tilescope.analyser.advice.insights import insights
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.summary.metrics import values
from tilescope.engine import (
    Engine,
    Executable,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.reports import open_report


def _report(executable: Executable, directory: Path) -> Path:
    """Write the compilation of an executable that may not fit and return the report's path."""
    options = resolve_options(
        code={
            "autoReport.all": True,
            "autoReport.directory": str(directory),
            "debug.allowOutOfMemory": True,
        }
    )
    with Engine(executable, options):
        pass
    return directory / "profile.pop"


def _on_gc2(n_bytes: int) -> Executable:
    """Return a program on one tile that uses memory up to an address."""
    machine = load_machine("gc2", tiles_per_ipu=1)
    code_bytes = int(compile_programs(Graph(machine), []).memory.including_gaps[0])
    graph = Graph(machine)
    x = graph.add_constant(np.zeros((n_bytes - code_bytes) // 4, np.float32), "x")
    graph.set_tile_mapping(x, [0], [0])
    return compile_programs(graph, [])


@pytest.mark.parametrize(("n_bytes", "n_over"), [(253_952, 0), (255_216, 1)])
def test_the_reserved_end_of_a_tile_is_not_memory(
    tmp_path: Path, n_bytes: int, n_over: int
) -> None:
    """A GC2 tile has 262,144 bytes, of which programs may use 253,952."""
    executable = _on_gc2(n_bytes)
    assert executable.memory.including_gaps.tolist() == [n_bytes]
    assert executable.overfull_tiles.size == n_over
    path = _report(executable, tmp_path)
    with open_report(path) as report:
        assert values(report)["memory.tiles_over_capacity"] == n_over
        fit = insights(report).fit
        assert (fit.fits, fit.n_tiles_over, fit.excess_bytes) == (
            n_over == 0,
            n_over,
            n_over * (n_bytes - 253_952),
        )
        assert tile_memory(report).capacity_bytes == 253_952
    overflowed = pva.openReport(str(path)).compilation.tiles[0].memory.overflowed
    assert overflowed.includingGaps == n_over * (n_bytes - 253_952)


def test_code_past_the_executable_region_does_not_fit(tmp_path: Path) -> None:
    """The region that holds code ends before the code does; the tile has ample memory."""
    machine = load_machine("gc200", tiles_per_ipu=1)
    code_bytes = int(compile_programs(Graph(machine), []).memory.code_end[0])
    small = replace(machine, non_interleaved_bytes=code_bytes - 8)
    executable = compile_programs(Graph(small), [])
    assert executable.overfull_tiles.tolist() == [0]
    with open_report(_report(executable, tmp_path)) as report:
        assert values(report)["memory.tiles_over_capacity"] == 1
        fit = insights(report).fit
        assert (fit.fits, fit.n_tiles_over, fit.n_tiles_with_too_much_code) == (False, 1, 1)
        assert fit.excess_bytes == 8
