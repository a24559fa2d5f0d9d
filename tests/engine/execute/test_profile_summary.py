"""The printed summary adds up, and the engine returns the report."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Engine,
    Executable,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.errors import BadInput
from tilescope.engine.graph import ROOT
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Repeat, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.reports import check_report

NO_REPORT = resolve_options(environ={})


def compiled(n_ipus: int = 1) -> Executable:
    graph = Graph(load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=16))
    builder = Builder(graph, Sequence("program"), ROOT)
    left = graph.add_variable("float32", (1, 48, 32), "left")
    graph.map_linearly(left)
    builder.sequence.add(StreamCopyIn("left", left))
    product = matmul(builder, left, np.ones((1, 32, 24), np.float32))
    inner = Builder(graph, Sequence("again"), ROOT)
    out = unary(inner, "relu", product)
    builder.sequence.add(Repeat(7, inner.sequence))
    builder.sequence.add(StreamCopyOut(out, "out"))
    return compile_programs(graph, [builder.sequence], plans=builder.plans)


def printed(engine: Engine, **options: bool) -> str:
    file = io.StringIO()
    engine.print_profile_summary(file=file, **options)
    return file.getvalue()


def number(text: str, label: str) -> float:
    match = re.search(rf"^\s*{re.escape(label)}:\s+([\d,.]+)", text, re.MULTILINE)
    assert match is not None, label
    return float(match[1].replace(",", ""))


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_memory_by_region_and_by_type_adds_up(n_ipus: int) -> None:
    executable = compiled(n_ipus)
    with Engine(executable, NO_REPORT) as engine:
        text = printed(engine)
    assert "Nothing has run yet" in text
    total = number(text, "Total")
    assert total == executable.memory.excluding_gaps.sum()
    assert number(text, "Including Gaps") == executable.memory.including_gaps.sum()
    regions = ("Non-interleaved", "Interleaved", "Overflowed")
    assert sum(number(text, region) for region in regions) == total
    types = text.split("By Data Type:")[1].split("\n\n")[0]
    assert sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B", types)) == total
    vertices = sum(
        batch.n_vertices for item in executable.graph.compute_sets for batch in item.batches
    )
    assert number(text, "Number of vertices") == vertices
    histogram = text.split("Count (tiles)")[1].split("Maximum")[0]
    tiles = [int(line.split()[-1]) for line in histogram.split("\n") if "*" in line]
    assert sum(tiles) == executable.machine.n_tiles


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_the_phases_add_up_to_the_run(n_ipus: int) -> None:
    with Engine(compiled(n_ipus), NO_REPORT) as engine:
        engine.connect_stream("left", np.ones((1, 48, 32)))
        engine.run()
        text = printed(engine)
        cycles = [timeline.n_cycles for timeline in engine.timelines()]
    assert number(text, "Total cycles") == max(cycles)
    phases = (
        "Tile average compute cycles (including idle threads)",
        "Tile average IPU exchange cycles",
        "Tile average global exchange cycles",
        "Tile average host exchange cycles",
        "Tile average sync cycles",
    )
    assert sum(number(text, phase) for phase in phases) == pytest.approx(np.mean(cycles), abs=0.5)
    assert f"{48 * 32 * 4:,} B in, {48 * 24 * 4:,} B out" in text.split("Host exchange:")[1]
    assert "0 B in, 0 B out" in text.split("Remote buffer exchange:")[1].split("\n")[0]
    busy = number(text, "Tile average compute cycles (including idle threads)")
    assert 0 < number(text, "Tile average compute cycles (excluding idle threads)") <= busy
    assert (number(text, "Tile average global exchange cycles") > 0) == (n_ipus > 1)


def test_optional_sections_appear_on_request() -> None:
    executable = compiled(2)
    with Engine(executable, NO_REPORT) as engine:
        engine.connect_stream("left", np.ones((1, 48, 32)))
        engine.run()
        short = printed(engine)
        everything: dict[str, Any] = {
            "show_execution_steps": "Execution Steps:",
            "show_var_storage": "Live Variables:",
            "show_per_ipu_memory_usage": "  IPU 1:",
            "show_optimizations": "Optimizations:",
        }
        for option, heading in everything.items():
            assert heading not in short
            assert heading in printed(engine, **{option: True})
        steps = printed(engine, show_execution_steps=True)
        storage = printed(engine, show_var_storage=True)
    assert ", 7 times" in steps
    for step in executable.steps:
        assert f"Step {step.step_id} {step.kind} {step.name}:" in storage


def test_the_engine_gives_its_report(tmp_path: Path) -> None:
    options = resolve_options(code={"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    with Engine(compiled(), options) as engine:
        engine.connect_stream("left", np.ones((1, 48, 32)))
        engine.run()
        with engine.get_report() as report:
            assert report.is_complete
        engine.run()
        assert check_report(tmp_path) == []


def test_without_a_report_it_explains_how_to_get_one() -> None:
    with Engine(compiled(), NO_REPORT) as engine, pytest.raises(BadInput, match=r"autoReport\.all"):
        engine.get_report()
