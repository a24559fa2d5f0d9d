"""The action for GitHub and the template for GitLab, their scripts run by bash in a repository."""

from __future__ import annotations

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

import yaml  # type: ignore[import-untyped]

__all__ = [
    "ACTION",
    "ROOT",
    "TEMPLATE",
    "Job",
    "make_job",
    "n_failures",
    "replace_report",
    "run_action",
    "run_template",
    "text_of",
]

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


def make_job(tmp_path: Path) -> Job:
    """Return a job with ``tilescope`` on its path, in a clone of a bare repository."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("tilescope", "tilescope"), ("python", "")):
        arguments = f"-m {module} " if module else ""
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "compat")}
    built = Job(tmp_path / "work", environ)
    script = """
    git init -q --bare server.git
    git init -q -b main work
    cd work
    git -c user.name=t -c user.email=t@t commit -q --allow-empty -m one
    git remote add origin "$PWD/../server.git"
    git push -q origin main
    """
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environ, check=True)
    return built


def run_template(
    job: Job, variables: Mapping[str, str], report: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the script of the template as GitLab does.

    Parameters
    ----------
    job
        The job.
    variables
        Those of the job that extends the template.
    report
        A report that is copied to where the command would write it; None runs the model.
    """
    template: Any = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))[".tilescope-gates"]
    output = '"$TILESCOPE_OUTPUT"'
    copy = f"rm -rf {output}; mkdir {output}; cp -r {report} {output}/report"
    lines = [
        copy if report is not None and line.startswith("tilescope run") else line
        for line in template["script"]
    ]
    assert report is None or copy in lines
    # The remote is a directory here; on GitLab its address holds the token.
    lines = [re.sub(r"git remote set-url .*\\\n.*\n", "true\n", line) for line in lines]
    return job.bash("\n".join(lines), {**template["variables"], **variables})


def run_action(job: Job, inputs: Mapping[str, str]) -> tuple[int, str, str]:
    """Run the steps of the action as GitHub does; return exit code, output and step summary."""
    action: Any = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert set(inputs) <= set(action["inputs"])
    context = {f"inputs.{name}": str(facts["default"]) for name, facts in action["inputs"].items()}
    context |= {f"inputs.{name}": text for name, text in inputs.items()}
    summary, output = job.folder / "summary.md", ""
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
        finished = job.bash(step["run"], environ)
        output += finished.stdout + finished.stderr
        for line in outputs.read_text().splitlines():
            name, _, text = line.partition("=")
            context[f"steps.{step.get('id')}.outputs.{name}"] = text
        if finished.returncode:
            return finished.returncode, output, text_of(summary)
    return 0, output, text_of(summary)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def n_failures(path: Path) -> int:
    (suite,) = ElementTree.parse(path).getroot()
    return int(suite.attrib["failures"])


def replace_report(job: Job, report: Path) -> None:
    shutil.rmtree(job.folder / "report")
    shutil.copytree(report, job.folder / "report")
