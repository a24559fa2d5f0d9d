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


def test_ledger_has_parts(tilescope: Run, pipelines: Path) -> None:
    text = tilescope("ledger", pipelines / "train").out
    assert "By IPU and stage" in text
    assert "  Backward 0" in text
    parts = tilescope("ledger", pipelines / "train", "--json").json()["parts"]
    assert [part["stage"] for part in parts if part["ipu_id"] == 0] == [
        None,
        "forward 0",
        "backward 0",
    ]
    assert "By IPU" not in tilescope("ledger", pipelines / "one").out


def test_operations_of_a_stage(tilescope: Run, pipelines: Path) -> None:
    listed = tilescope("ops", pipelines / "train", "--stage", "backward 1", "--json").json()
    assert {(item["stage"], item["ipu_id"]) for item in listed["operations"]} == {("backward 1", 1)}
    heading = next(
        line for line in tilescope("ops", pipelines / "train").out.splitlines() if "FLOPs" in line
    )
    assert "IPU" in heading
    assert "Stage" in heading


def test_a_stage_that_does_not_exist(tilescope: Run, pipelines: Path) -> None:
    outcome = tilescope("ops", pipelines / "train", "--stage", "backward 7")
    assert outcome.code == 2
    assert "unknown stage 'backward 7'; use forward 0" in " ".join(outcome.err.split())
    outcome = tilescope("ops", pipelines / "one", "--stage", "forward 0")
    assert outcome.code == 2
    assert "leave out --stage" in " ".join(outcome.err.split())
