"""Stages of a pipeline in the output of commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.tilescope.conftest import Outcome

from tilescope import analyser
from tilescope.analyser.summary.stage_figures import stage_figures

Run = Callable[..., Outcome]


def test_summary_has_stages(tilescope: Run, pipelines: Path) -> None:
    text = tilescope("summary", pipelines / "train").out
    for words in ("Stages", "Forward 0, IPU 0", "IPU 1 waits", "Cycles with equal stages"):
        assert words in text
    document = tilescope("summary", pipelines / "train", "--json").json()
    with analyser.open(pipelines / "train") as report:
        figures = stage_figures(report)
    assert figures is not None
    assert document["stages"]["balanced_cycles"] == figures.balanced_cycles
    assert document["stages"]["forward_0_cycles"] == figures.stages[0].cycles
    for ipu in document["pipeline"]["ipus"]:
        parts = ("work", "copy", "host", "collective", "waiting", "other")
        assert sum(ipu[f"{part}_cycles"] for part in parts) == figures.total_cycles
    assert document["pipeline"]["slowest"] == figures.slowest.stage.name


def test_one_ipu_has_no_section(tilescope: Run, pipelines: Path) -> None:
    assert "Stages" not in tilescope("summary", pipelines / "one").out
    document = tilescope("summary", pipelines / "one", "--json").json()
    assert not document.keys() & {"stages", "replicas", "pipeline"}
