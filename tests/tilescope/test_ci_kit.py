"""The action for GitHub and the template for GitLab: their scripts, run by bash."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
TEMPLATE = ROOT / "docs/how-to/ci/gitlab.yml"


@dataclass(frozen=True)
class Job:
    """A repository with a bare remote, in which scripts run."""

    folder: Path
    environ: dict[str, str]

    def bash(self, script: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture
def job(tmp_path: Path, reports_directory: Path) -> Job:
    """Return a job with ``tilescope`` on its path, and the baseline's report in ``report``."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("tilescope", "tilescope"), ("python", "")):
        arguments = f"-m {module} " if module else ""
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "compat")}
    made = Job(tmp_path / "work", environ)
    script = """
    git init -q --bare server.git
    git init -q -b main work
    cd work
    git -c user.name=t -c user.email=t@t commit -q --allow-empty -m one
    git remote add origin "$PWD/../server.git"
    git push -q origin main
    """
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environ, check=True)
    shutil.copytree(reports_directory / "baseline", made.folder / "report")
    return made


def run_action(job: Job, inputs: Mapping[str, str]) -> tuple[int, str, str]:
    """Run the steps of the action as GitHub does; return exit code, output and step summary."""
    action: Any = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert set(inputs) <= set(action["inputs"])
    context = {f"inputs.{name}": str(facts["default"]) for name, facts in action["inputs"].items()}
    context |= {f"inputs.{name}": text for name, text in inputs.items()}
    summary, said = job.folder / "summary.md", ""
    summary.unlink(missing_ok=True)
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "a script takes inputs from its environment only"
        condition = re.fullmatch(
            r"\$\{\{ (\S+) (==|!=) '(.*)' \}\}", step.get("if", "${{ a != '' }}")
        )
        assert condition is not None
        value = context.get(condition[1], "set" if condition[1] == "a" else "")
        if (value == condition[3]) != (condition[2] == "=="):
            continue
        outputs = job.folder / "outputs.txt"
        outputs.write_text("")
        environ = {
            name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: context[found[1]], text)
            for name, text in step.get("env", {}).items()
        }
        environ |= {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
        done = job.bash(step["run"], environ)
        said += done.stdout + done.stderr
        for line in outputs.read_text().splitlines():
            name, _, text = line.partition("=")
            context[f"steps.{step.get('id')}.outputs.{name}"] = text
        if done.returncode:
            return done.returncode, said, _text(summary)
    return 0, said, _text(summary)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def n_failures(path: Path) -> int:
    (suite,) = ElementTree.parse(path).getroot()
    return int(suite.attrib["failures"])


def replace_report(job: Job, report: Path) -> None:
    shutil.rmtree(job.folder / "report")
    shutil.copytree(report, job.folder / "report")


def test_the_action_from_the_first_run_to_a_failed_gate(job: Job, reports_directory: Path) -> None:
    gates = {"fail-on": "cycles.total:+1%\n\noperation.cycles@layer1/conv:+0c\n",
             "warn-on": "memory.total:+0B"}  # fmt: skip
    code, said, summary = run_action(job, gates | {"save": "true"})
    assert (code, summary) == (0, ""), said
    assert "::notice title=TileScope::No baseline is stored yet" in said
    assert "Saved small/small-2x4-hardware/default" in said

    code, said, summary = run_action(job, gates)
    assert code == 0, said
    assert "The two reports hold identical data." in summary
    assert "::error" not in said

    replace_report(job, reports_directory / "slower")
    code, said, summary = run_action(job, gates | {"save": "true"})
    assert code == 1, said
    assert "::error title=cycles.total::cycles.total: 970 cycles → 1,090 cycles" in said
    assert "::warning title=memory.total::" in said
    assert "❌ failed" in summary
    assert "Saved" not in said, "a report that fails its gates must not become the baseline"
    output = job.folder / "tilescope-output"
    assert n_failures(output / "gates.xml") == 2
    assert len(json.loads(_text(output / "gates.sarif"))["runs"][0]["results"]) == 3
    assert _text(output / "diff.html").startswith("<!DOCTYPE html>")


def test_the_action_with_a_baseline_and_with_a_directory(job: Job, reports_directory: Path) -> None:
    given = {"baseline": str(reports_directory / "slower"), "fail-on": "cycles.total:+0c"}
    assert run_action(job, given)[0] == 0
    stored = {"store": "my baselines", "fail-on": "cycles.total:+0c"}
    assert run_action(job, stored | {"save": "true"})[0] == 0
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
    template: Any = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))[".tilescope-gates"]
    (job.folder / "tilescope.toml").write_text('[diff]\nfail-on = ["cycles.total:+1%"]\n')
    # Running a model is not what is tested: the report is copied to where the command writes it.
    lines = [
        'cp -r report "$TILESCOPE_OUTPUT/report"' if line.startswith("tilescope run") else line
        for line in template["script"]
    ]
    assert lines != template["script"]
    # The remote is a directory here; on GitLab its address holds the token.
    lines = [re.sub(r"git remote set-url .*\\\n.*\n", "true\n", line) for line in lines]
    environ = {**template["variables"], "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main",
               "TILESCOPE_TOKEN": "secret"}  # fmt: skip
    first = job.bash("\n".join(lines), environ)
    assert first.returncode == 0, first.stderr
    assert "Saved small/small-2x4-hardware/default" in first.stdout
    shutil.rmtree(job.folder / "tilescope-output")
    replace_report(job, reports_directory / "slower")
    branch = job.bash("\n".join(lines), environ | {"CI_COMMIT_BRANCH": "change"})
    assert branch.returncode == 1, branch.stderr
    assert "Saved" not in branch.stdout
    place = template["artifacts"]["reports"]["junit"]
    place = place.replace("$TILESCOPE_OUTPUT", template["variables"]["TILESCOPE_OUTPUT"])
    assert n_failures(job.folder / place) == 1


def test_values_of_the_action_are_neither_options_nor_patterns(job: Job) -> None:
    (job.folder / "report").rename(job.folder / "--version")
    odd = {"report": "--version", "output": "--help; touch ran", "store": "$(touch ran)"}
    for _ in range(2):
        code, said, _ = run_action(job, odd | {"save": "true", "fail-on": "cycles.total:+1%"})
        assert code == 0, said
        assert "Saved small/small-2x4-hardware/default" in said
    assert (job.folder / "--help; touch ran" / "gates.xml").exists()
    assert not (job.folder / "ran").exists()
    two_lines = {"baseline": "a\ncompared=true", "report": "--version"}
    code, said, _ = run_action(job, two_lines)
    assert (code, "baseline: expected one line" in said) == (2, True)


def test_packages_of_the_action_are_no_patterns(job: Job) -> None:
    """A checkout may hold a file that ``tilescope[engine]`` matches, and a module ``pip``."""
    for name in ("tilescopee", "pip.py"):
        (job.folder / name).write_text("open('ran', 'w')")
    python = job.folder.parent / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONSAFEPATH: $@"\n')
    code, said, _ = run_action(job, {"install": "tilescope[engine] --index-url=x"})
    assert code == 0
    assert "1: -m pip install --quiet -- tilescope[engine] --index-url=x\n" in said
