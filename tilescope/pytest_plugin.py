"""pytest plugin: limits on the figures of programs that tests run, and golden reports.

Nothing of TileScope is imported until a test uses the marker or a fixture.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tilescope.analyser.gates import Limit
    from tilescope.reports import Report

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_itemcollected",
    "pytest_runtest_call",
    "pytest_runtest_setup",
    "tilescope_report",
    "tilescope_run",
]

_ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
#: As in `tilescope.engine.recorder.place`: every engine of a test keeps its report.
_KEEP_REPORTS = "TILESCOPE_KEEP_REPORTS"
_REPORT_NAME = "profile.pop"
_SHORT = {
    "cycles": "cycles.total",
    "memory": "memory.total",
    "tile": "memory.max_tile",
    "time": "time.total",
}
_GOLDEN_GATES = ("cycles.total:+0%", "memory.max_tile:+0B")
_N_SENTENCES = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tilescope-update``."""
    group = parser.getgroup("tilescope")
    group.addoption(
        "--tilescope-update",
        action="store_true",
        help="write golden reports anew instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "tilescope(max_cycles=…, max_tile='300 KiB', golden=True, fail_on=[…]): limit figures of"
        " the reports that the test writes; any metric, as max_memory_total or"
        " min_parallel_efficiency; golden compares with a stored report",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a marked test its directory for reports, whether it asks for it or not."""
    names = getattr(item, "fixturenames", None)
    is_marked = item.get_closest_marker("tilescope") is not None
    if is_marked and names is not None and "tilescope_report" not in names:
        names.append("tilescope_report")


@pytest.fixture
def tilescope_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which programs of this test write their reports."""
    directory = tmp_path / "tilescope-report"
    try:
        given = json.loads(os.environ.get(_ENGINE_OPTIONS) or "{}")
    except ValueError:
        given = {}  # the engine explains what is wrong with it
    given = given if isinstance(given, dict) else {}
    given |= {"autoReport.all": "true", "autoReport.directory": str(directory)}
    monkeypatch.setenv(_ENGINE_OPTIONS, json.dumps(given))
    monkeypatch.setenv(_KEEP_REPORTS, "1")
    return directory


@pytest.fixture
def tilescope_run(tilescope_report: Path) -> Callable[..., Path]:
    """Return a function that runs an ONNX model as ``tilescope run`` does.

    It takes the model and the arguments of the command, and returns the directory of the reports:
    that of the first run, in which later runs have subdirectories ``engine2`` and so on.
    """

    def run(model: str | os.PathLike[str], *arguments: object) -> Path:
        from tilescope.main import main

        code = main(["run", os.fspath(model), *map(str, arguments)])
        if code:
            pytest.fail(f"tilescope run {os.fspath(model)} ended with exit code {code}", False)
        return tilescope_report

    return run


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker with an unknown figure before the test runs."""
    if item.get_closest_marker("tilescope"):
        try:
            _Expected.of(item)
        except _BadMarker as error:
            pytest.fail(f"pytest.mark.tilescope: {error}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check the reports of a marked test after it has passed."""
    result = yield
    if item.get_closest_marker("tilescope"):
        directory = getattr(item, "funcargs", {}).get("tilescope_report")
        if directory is not None:
            problems = _Expected.of(item).problems(directory)
            if problems:
                pytest.fail("\n".join(problems), pytrace=False)
    return result


class _BadMarker(Exception):
    """The marker has an unknown argument or value."""


class _Expected:
    """What the marker of a test asks of its reports.

    ``limits`` maps the name of an argument, such as ``max_cycles``, to metric and limit.
    """

    def __init__(self, item: pytest.Item, limits: Mapping[str, Any]) -> None:
        from tilescope.analyser.errors import BadQuestion
        from tilescope.analyser.gates import parse_gate

        self._item = item
        self._is_updated = bool(item.config.getoption("--tilescope-update"))
        golden, fail_on = limits.get("golden"), limits.get("fail_on")
        if fail_on is not None and not golden:
            raise _BadMarker("fail_on compares with a golden report; add golden=True")
        texts = [fail_on] if isinstance(fail_on, str) else fail_on or _GOLDEN_GATES
        try:
            self._gates = [parse_gate(text) for text in texts]
            self.limits = {
                key: _limit(key, value)
                for key, value in limits.items()
                if key not in {"golden", "fail_on"}
            }
        except BadQuestion as error:
            raise _BadMarker(str(error)) from None
        self._golden = None
        if golden:
            stem = re.sub(r"[^A-Za-z0-9._-]+", "-", item.name)
            name = golden if isinstance(golden, str) else f"{item.path.stem}/{stem}"
            self._golden = item.path.parent / "tilescope-golden" / name

    @classmethod
    def of(cls, item: pytest.Item) -> _Expected:
        """Return what the markers of a test ask; the closest one takes precedence."""
        limits: dict[str, Any] = {}
        for marker in item.iter_markers("tilescope"):
            if marker.args:
                raise _BadMarker("expected arguments with names, such as max_cycles=1000")
            limits = {**marker.kwargs, **limits}
        return cls(item, limits)

    def problems(self, directory: Path) -> list[str]:
        """Return what is wrong with the reports in a directory, in sentences."""
        from tilescope import analyser
        from tilescope.reports import ReportError, find_reports

        folders = sorted({entry.path.parent for entry in find_reports([directory])})
        if not folders:
            return [f"The test wrote no report; programs it runs write one to {directory}."]
        problems = []
        for folder in folders:
            label = folder.relative_to(directory.resolve())
            try:
                with analyser.open(folder) as report:
                    sentences = self._problems_of(report, label)
            except ReportError as error:
                sentences = [str(error)]
            problems += (
                sentences if len(folders) == 1 else [f"{label}: {text}" for text in sentences]
            )
        return problems

    def _problems_of(self, report: Report, label: Path) -> list[str]:
        """Return what is wrong with one report; it must be complete and of the newest run.

        Raises
        ------
        DamagedReport, ReportIncomplete
            It is not, or a golden report is not.
        """
        from tilescope.reports import require_complete

        require_complete(report)
        golden = None if self._golden is None else self._golden / label / _REPORT_NAME
        if golden is not None and self._is_updated:
            golden.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report.path, golden)
        sentences = self._over_limits(report)
        return sentences + self._changed(report, golden, is_wanted=bool(sentences))

    def _over_limits(self, report: Report) -> list[str]:
        """Return a sentence per figure outside its limit."""
        from tilescope.analyser.machine.target import target
        from tilescope.analyser.quantities import format_value
        from tilescope.analyser.summary.metrics import METRICS

        problems = []
        for key, (name, limit) in self.limits.items():
            value, unit = METRICS[name].of_run(report), METRICS[name].unit
            allowed = limit.amount_of(0, target(report).clock_hz)
            if value is None:
                problems.append(f"{name} is missing in the report ({key}).")
            elif value > allowed if key.startswith("max_") else value < allowed:
                word = "above" if key.startswith("max_") else "below"
                problems.append(
                    f"{name} is {format_value(value, unit, 'bytes')}, {word} the limit of"
                    f" {limit.text}{'' if _has_unit(limit.text) else _suffix(unit)} ({key})."
                )
        return problems

    def _changed(self, report: Report, golden: Path | None, *, is_wanted: bool) -> list[str]:
        """Return failed gates and what changed since the golden report.

        ``is_wanted`` asks for what changed even if no gate failed.
        """
        from tilescope import analyser
        from tilescope.analyser.diff import compare, explain
        from tilescope.analyser.gates import evaluate
        from tilescope.reports import require_complete

        if golden is None:
            return []
        if not golden.is_file():
            return [f"No golden report at {golden}; write it with pytest --tilescope-update."]
        with analyser.open(golden) as stored:
            require_complete(stored)
            difference = compare(stored, report)
            results = evaluate(self._gates, difference, stored, report)
            sentences = [result.text for result in results if result.status != "passed"]
            if sentences or is_wanted:
                sentences.append(f"Since {golden}:")
                sentences += [f"  {text}" for text in explain(difference)[:_N_SENTENCES]]
        return sentences


def _limit(key: str, value: object) -> tuple[str, Limit]:
    """Return metric and limit of an argument such as ``max_tile="300 KiB"``."""
    from difflib import get_close_matches

    from tilescope.analyser.errors import BadQuestion
    from tilescope.analyser.gates import parse_limit
    from tilescope.analyser.summary.metrics import METRICS

    names = {name.replace(".", "_"): name for name in METRICS} | _SHORT
    side, _, rest = key.partition("_")
    if side not in {"max", "min"} or rest not in names:
        known = [f"{word}_{name}" for word in ("max", "min") for name in names]
        near = get_close_matches(key, known, n=1, cutoff=0.0)[0]
        raise BadQuestion(f"unknown argument {key!r}; the nearest is {near!r}")
    metric = METRICS[names[rest]]
    try:
        return metric.name, parse_limit(str(value), metric.unit, allows_percent=False)
    except BadQuestion as error:
        raise BadQuestion(f"{key}: {error}") from None


def _has_unit(text: str) -> bool:
    """Return whether a limit ends in a unit."""
    return not text[-1:].isdigit()


def _suffix(unit: str) -> str:
    """Return the unit of a limit that was given without one."""
    return f" {'B' if unit == 'bytes' else unit}".rstrip()
