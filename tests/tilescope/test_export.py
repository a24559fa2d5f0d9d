"""``tilescope export``: the forms that benchmark trackers take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilescope.analyser.summary.metrics import METRICS

Run = Callable[..., Any]


def test_github_action_benchmark(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "export", reports_directory / "baseline", "--format", "github-action-benchmark"
    ).json()
    assert {"name": "small: cycles.total", "unit": "cycles", "value": 485} in actual
    assert {"name": "small: graph.variables", "unit": "count", "value": 4} in actual
    assert all({"name", "unit", "value"} == set(entry) for entry in actual)
    assert all(isinstance(entry["value"], int | float) and entry["unit"] for entry in actual)
    assert not any("efficiency" in entry["name"] for entry in actual)


def test_what_is_better_when_bigger_is_apart(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "export", reports_directory / "baseline", "--format", "github-action-benchmark",
        "--bigger-is-better", "--name", "model",
    ).json()  # fmt: skip
    names = {entry["name"].removeprefix("model: ") for entry in actual}
    assert names == {name for name, metric in METRICS.items() if metric.worse == "lower"}


def test_bencher(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope("export", reports_directory / "baseline", "--format", "bencher").json()
    (measures,) = actual.values()
    assert list(actual) == ["small"]
    assert measures["cycles.total (cycles)"] == {"value": 485}
    of_models = (".pass.", "memory.purpose.", "memory.stored_activations")
    others = [name for name in METRICS if not any(part in name for part in of_models)]
    assert len(measures) == len(others), "a graph of a library alone has none of a model"
    assert max(map(len, measures)) <= 64, "Bencher's longest name of a measure"


def test_some_metrics_only(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope(
        "export", reports_directory / "no_runs", "--format", "bencher", "--metric", "cycles.*",
        "--metric", "graph.steps",
    ).json()  # fmt: skip
    assert actual == {"small": {"graph.steps (count)": {"value": 7}}}


def test_an_unknown_metric(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope(
        "export", reports_directory / "baseline", "--format", "bencher", "--metric", "cycle.*"
    )
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith("tilescope: no metric matches 'cycle.*'")
