"""The engine's own tracepoints: a trace shows them, and the profile names it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.libpvti.traced import environment, traces

from tilescope.analyser import host
from tilescope.engine.transform.pipeline import PASSES
from tilescope.reports import open_report
from tilescope.reports.schema import provenance, wall_clock

_PROGRAM = """
from tests.golden.recipe import network
from tilescope.engine import Engine, compile_model, load_machine
machine = load_machine("gc200", n_ipus=2, tiles_per_ipu=4)
for _ in range(2):
    compiled = compile_model(network(), machine, cache_directory="cache")
with Engine(compiled.executable) as engine:
    for number in range(3):
        compiled.run(engine, compiled.random_inputs(0))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace and the report of a program that compiles a model twice and runs it."""
    folder = tmp_path_factory.mktemp("traced")
    options = {"autoReport.all": "true", "autoReport.directory": "report"}
    variables = {**environment("{}"), "POPLAR_ENGINE_OPTIONS": json.dumps(options)}
    subprocess.run([sys.executable, "-c", _PROGRAM], cwd=folder, env=variables, check=True)
    return folder


def _tree(path: Path) -> list[tuple[str, str, str]]:
    """Return (around, channel, label) of every event."""
    with host.open_trace(path) as report:
        trace, events = host.host_trace(report), host.events(report)
    names = [trace.labels[label] for label in events.label_id]
    return [
        (names[parent] if parent >= 0 else "", trace.channels[trace.label_channel[label]], name)
        for name, label, parent in zip(names, events.label_id, events.parent, strict=True)
    ]


def test_compilation_runs_copies_and_the_report_are_traced(folder: Path) -> None:
    (path,) = traces(folder)
    tree = _tree(path)
    counts = Counter(tree)
    assert counts["", "Framework", "compile model"] == 2
    for name in PASSES:
        assert counts["compile model", "Framework", f"transform.{name}"] == 1, name
    for step in ("build graph", "outline", "expand"):
        assert counts["compile model", "Poplar", f"compile.{step}"] == 1, step
    assert counts["compile model", "Poplar", "compile"] == 1
    for step in ("lower", "liveness", "layout", "slow paths"):
        assert counts["compile", "Poplar", f"compile.{step}"] == 1, step
    assert counts["compile.build graph", "graphConstruction/poplin", "plan convolution"] == 2
    assert counts["compile model", "Poplar", "cache.take program"] == 2
    assert counts["compile model", "Poplar", "cache.keep program"] == 1
    assert counts["", "Poplar", "report.begin"] == 1
    assert counts["", "Poplar", "engine.load"] == 1
    assert counts["", "Poplar", "engine.run"] == 3
    assert counts["engine.run", "Drivers", "image"] == 3
    assert counts["engine.run", "Drivers", "scores"] == 3
    assert counts["", "Poplar", "report.write runs"] >= 1
    assert counts["", "Poplar", "report.seal"] == 1


def test_trace_and_profile_name_each_other_and_share_a_clock(folder: Path) -> None:
    (path,) = traces(folder)
    with open_report(folder / "report") as profile:
        facts = dict(profile.rows(provenance, "key", "value"))
        clock = profile.rows(wall_clock, "event", "wall_start_us", "wall_duration_us")
    with host.open_trace(path) as report:
        trace, events = host.host_trace(report), host.events(report)
        trace_facts = dict(report.rows(provenance, "key", "value"))
    assert facts["wall_host_trace"] == trace.trace_id
    assert trace_facts["wall_profile_0"] == f"{facts['wall_created']} report"
    runs = [
        (trace.origin_ns + int(start), int(end - start))
        for label, start, end in zip(events.label_id, events.start_ns, events.end_ns, strict=True)
        if trace.labels[label] == "engine.run"
    ]
    recorded = [(start, length) for event, start, length in clock if event == "run"]
    assert (len(runs), len(recorded)) == (3, 2)  # a profile has the first two runs by default
    for (start_ns, length_ns), (start_us, length_us) in zip(runs, recorded, strict=False):
        assert abs(start_ns / 1e3 - start_us) < 5_000
        assert length_us <= length_ns / 1e3 + 1
