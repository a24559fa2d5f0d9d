"""The verdicts of the action and of the template, as the documentation lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.tilescope.ci_kit import ROOT, Job, make_job, run_action, run_template

from tilescope.main import main

PAGE = ROOT / "docs/how-to/ci-gates.md"
GATES = ("cycles.total:+0%", "cycles.compute:+0%")


@dataclass(frozen=True)
class Case:
    """What a job runs, and what it is told about its baseline."""

    title: str
    report: str
    name: str = ""
    is_first: bool = False
    is_refused: bool = False


CASES = (
    Case("First run", "same"),
    Case("First run, declared", "same", is_first=True),
    Case("No change", "same"),
    Case("Better", "better"),
    Case("Worse", "worse"),
    Case("Option changed", "option"),
    Case("Machine changed", "machine"),
    Case("Tiles changed", "tiles"),
    Case("File renamed", "renamed"),
    Case("File renamed, with the name of the baseline", "renamed", name="model.onnx"),
    Case("Two models of one name", "other"),
    Case("Push refused", "better", is_refused=True),
)


def verdicts() -> dict[str, tuple[str, str]]:
    """Return verdict and message of every case of the page."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("<!-- verdicts -->")[2].partition("<!-- end of verdicts -->")[0]
    rows = re.findall(r"^\| (.+?) \| (red|green) \| (.+?) \|$", table, re.MULTILINE)
    return {title: (verdict, output) for title, verdict, output in rows}


def write_model(path: Path, operators: tuple[str, ...]) -> None:
    """Write a convolution followed by elementwise operators."""
    weight = numpy_helper.from_array(np.ones((8, 4, 3, 3), np.float32), "weight")
    nodes = [helper.make_node("Conv", ["x", "weight"], ["t0"], name="conv", pads=[1] * 4)]
    for number, operator in enumerate(operators):
        nodes.append(helper.make_node(operator, [f"t{number}"], [f"t{number + 1}"]))
    shapes = {"x": [1, 4, 8, 8], f"t{len(operators)}": [1, 8, 8, 8]}
    (x,), (y,) = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in shapes.items()
    )
    graph = helper.make_graph(nodes, "net", [x], [y], [weight])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the reports of all cases, run in a repository."""
    folder = tmp_path_factory.mktemp("reports")
    work = tmp_path_factory.mktemp("checkout")
    (work / ".git").mkdir()
    models = {
        "model.onnx": ("Relu", "Tanh"),
        "better/model.onnx": ("Tanh",),
        "worse/model.onnx": ("Relu", "Sigmoid", "Tanh"),
        "renamed.onnx": ("Relu", "Tanh"),
        "other/model.onnx": ("Exp",),
    }
    for path, operators in models.items():
        write_model(work / path, operators)
    runs: Mapping[str, tuple[str, ...]] = {
        "same": ("model.onnx",),
        "better": ("model.onnx",),
        "worse": ("model.onnx",),
        "option": ("model.onnx", "--available-memory-proportion", "0.0005"),
        "machine": ("model.onnx", "--machine", "gc2"),
        "tiles": ("model.onnx", "--tiles", "4"),
        "renamed": ("renamed.onnx",),
        "other": ("other/model.onnx",),
    }
    start = Path.cwd()
    os.chdir(work)
    try:
        original = (work / "model.onnx").read_bytes()
        for name, (model, *arguments) in runs.items():
            edited = work / name / "model.onnx"
            content = edited.read_bytes() if name in {"better", "worse"} else original
            (work / "model.onnx").write_bytes(content)
            tiles = () if "--tiles" in arguments else ("--tiles", "16")
            report = ("--report", str(folder / name), "--quiet", "--seed", "1")
            assert main(["run", model, *arguments, *tiles, *report]) == 0
    finally:
        os.chdir(start)
    return folder


def of_action(job: Job, reports: Path, case: Case) -> tuple[int, str]:
    """Run the action; return exit code and output with the step summary."""
    inputs = {
        "report": str(reports / case.report),
        "fail-on": "\n".join(GATES),
        "name": case.name,
        "first-run": str(case.is_first).lower(),
        "save": str(case.is_first or case.is_refused).lower(),
    }
    code, text, summary = run_action(job, inputs)
    return code, text + summary


def of_template(job: Job, reports: Path, case: Case) -> tuple[int, str]:
    """Run the template's script; return exit code and output with the written comparison."""
    is_saved = case.is_first or case.is_refused
    variables = {
        "TILESCOPE_NAME": case.name,
        "TILESCOPE_FIRST_RUN": str(case.is_first).lower(),
        "CI_COMMIT_BRANCH": "main" if is_saved else "change",
        "CI_DEFAULT_BRANCH": "main",
        "TILESCOPE_TOKEN": "secret",
    }
    (job.folder / "tilescope.toml").write_text(f"[diff]\nfail-on = {list(GATES)}\n")
    finished = run_template(job, variables, reports / case.report)
    return finished.returncode, finished.stdout + finished.stderr


@pytest.fixture(scope="module", params=[of_action, of_template], ids=["action", "template"])
def outcomes(
    request: pytest.FixtureRequest, reports: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int, str]]:
    """Return exit code and output of every case, run one after the other in one repository."""
    run: Callable[[Job, Path, Case], tuple[int, str]] = request.param
    job = make_job(tmp_path_factory.mktemp("job"))
    hook = job.folder.parent / "server.git/hooks/pre-receive"
    results = {}
    for case in CASES:
        if case.is_refused:
            hook.write_text("#!/bin/sh\necho 'baselines are frozen' >&2\nexit 1\n")
            hook.chmod(0o755)
        results[case.title] = run(job, reports, case)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("title", [case.title for case in CASES])
def test_a_case_has_the_verdict_that_the_page_lists(
    outcomes: dict[str, tuple[int, str]], title: str
) -> None:
    verdict, message = verdicts()[title]
    code, text = outcomes[title]
    assert ("green" if code == 0 else "red") == verdict, text
    assert message in text


def test_the_page_lists_every_case() -> None:
    assert list(verdicts()) == [case.title for case in CASES]


@pytest.mark.slow
def test_a_green_case_of_another_model_leaves_the_first_one_alone(
    reports: Path, tmp_path: Path
) -> None:
    """Two models whose files have one name, in one store."""
    job = make_job(tmp_path)
    first, peer = Case("", "same", is_first=True), Case("", "other", is_first=True)
    for case in (first, peer, replace(first, is_first=False), replace(peer, is_first=False)):
        code, text = of_action(job, reports, case)
        assert code == 0, text
        assert case.is_first or "identical data" in text
