"""The action for GitHub and the template for GitLab: gates, inputs and hostile values."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.tilescope.ci_kit import (
    ACTION,
    ROOT,
    TEMPLATE,
    Job,
    make_job,
    n_failures,
    replace_report,
    run_action,
    run_template,
    text_of,
)


@pytest.fixture
def job(tmp_path: Path, reports_directory: Path) -> Job:
    """Return a job with the baseline's report in ``report``."""
    built = make_job(tmp_path)
    shutil.copytree(reports_directory / "baseline", built.folder / "report")
    return built


def test_the_action_from_the_first_run_to_a_failed_gate(job: Job, reports_directory: Path) -> None:
    gates = {"fail-on": "cycles.total:+1%\n\noperation.cycles@layer1/conv:+0c\n",
             "warn-on": "memory.total:+0B"}  # fmt: skip
    code, text, summary = run_action(job, gates | {"save": "true"})
    assert (code, summary) == (2, ""), text
    assert "::error title=TileScope::No baseline was compared and no gate checked" in text
    assert "no baseline for small in branch origin/tilescope-baselines, which holds nothing" in text

    code, text, summary = run_action(job, gates | {"save": "true", "first-run": "true"})
    assert (code, summary) == (0, ""), text
    assert "::notice title=TileScope::First run, as declared" in text
    assert "Saved small" in text

    code, text, summary = run_action(job, gates)
    assert code == 0, text
    assert "The two reports hold identical data." in summary
    assert "::error" not in text

    replace_report(job, reports_directory / "slower")
    code, text, summary = run_action(job, gates | {"save": "true"})
    assert code == 1, text
    assert "::error title=cycles.total::cycles.total: 485 cycles → 545 cycles" in text
    assert "::warning title=memory.total::" in text
    assert "❌ failed" in summary
    assert "Saved" not in text, "a report that fails its gates must not become the baseline"
    output = job.folder / "tilescope-output"
    assert n_failures(output / "gates.xml") == 2
    assert len(json.loads(text_of(output / "gates.sarif"))["runs"][0]["results"]) == 3
    assert text_of(output / "diff.html").startswith("<!DOCTYPE html>")


def test_the_action_with_a_baseline_and_with_a_directory(job: Job, reports_directory: Path) -> None:
    values = {"baseline": str(reports_directory / "slower"), "fail-on": "cycles.total:+0c"}
    assert run_action(job, values)[0] == 0
    stored = {"store": "my baselines", "fail-on": "cycles.total:+0c"}
    assert run_action(job, stored | {"save": "true", "first-run": "true"})[0] == 0
    code, text, _ = run_action(job, stored | {"first-run": "true"})
    assert code == 0
    assert "::warning title=TileScope::A baseline is stored: remove first-run" in text
    assert run_action(job, stored | {"baseline": "nowhere"})[0] == 2
    replace_report(job, reports_directory / "slower")
    assert run_action(job, stored)[0] == 1


def test_the_inputs_of_the_action_are_described() -> None:
    action: Any = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    page = (ROOT / "docs/how-to/ci-gates.md").read_text(encoding="utf-8")
    assert all(facts["description"] for facts in action["inputs"].values())
    assert [name for name in action["inputs"] if f"`{name}`" not in page] == []


def test_the_template_from_the_first_run_to_a_failed_gate(
    job: Job, reports_directory: Path
) -> None:
    (job.folder / "tilescope.toml").write_text('[diff]\nfail-on = ["cycles.total:+1%"]\n')
    variables = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main",
                 "TILESCOPE_TOKEN": "secret"}  # fmt: skip
    baseline, slower = reports_directory / "baseline", reports_directory / "slower"
    undeclared = run_template(job, variables, baseline)
    assert undeclared.returncode == 2
    assert "no baseline for small in branch origin/tilescope-baselines" in undeclared.stderr
    first = run_template(job, variables | {"TILESCOPE_FIRST_RUN": "true"}, baseline)
    assert first.returncode == 0, first.stderr
    assert "Saved small\n" in first.stdout
    branch = run_template(job, variables | {"CI_COMMIT_BRANCH": "change"}, slower)
    assert branch.returncode == 1, branch.stderr
    assert "Saved" not in branch.stdout
    template: Any = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))[".tilescope-gates"]
    position = template["artifacts"]["reports"]["junit"]
    position = position.replace("$TILESCOPE_OUTPUT", template["variables"]["TILESCOPE_OUTPUT"])
    assert n_failures(job.folder / position) == 1


def test_the_template_asks_for_its_package(job: Job) -> None:
    template: Any = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))[".tilescope-gates"]
    finished = job.bash("\n".join(template["before_script"]), template["variables"])
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith("TILESCOPE_PACKAGE is empty")


def test_values_of_the_action_are_neither_options_nor_patterns(job: Job) -> None:
    (job.folder / "report").rename(job.folder / "--version")
    outlier = {"report": "--version", "output": "--help; touch ran", "store": "$(touch ran)"}
    outlier |= {"name": "$(touch ran) --help"}
    for first in ("true", "false"):
        inputs = {"save": "true", "first-run": first, "fail-on": "cycles.total:+1%"}
        code, text, _ = run_action(job, outlier | inputs)
        assert code == 0, text
        assert "Saved touch-ran---help-" in text
    assert (job.folder / "--help; touch ran" / "gates.xml").exists()
    assert not (job.folder / "ran").exists()
    two_lines = {"baseline": "a\ncompared=true", "report": "--version"}
    code, text, _ = run_action(job, two_lines)
    assert (code, "baseline: expected one line" in text) == (2, True)


def test_packages_of_the_action_are_no_patterns(job: Job) -> None:
    """A checkout may hold a file that ``tilescope[engine]`` matches, and a module ``pip``."""
    for name in ("tilescopee", "pip.py"):
        (job.folder / name).write_text("open('ran', 'w')")
    python = job.folder.parent / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONSAFEPATH: $@"\n')
    code, text, _ = run_action(
        job, {"install": "tilescope[engine] --index-url=x", "first-run": "true"}
    )
    assert code == 0
    assert "1: -m pip install --quiet -- tilescope[engine] --index-url=x\n" in text
