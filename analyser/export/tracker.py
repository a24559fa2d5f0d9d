"""Figures of a report in the JSON forms of benchmark trackers."""

from __future__ import annotations

from collections.abc import Mapping

from tilescope.analyser.summary.metrics import METRICS, MetricValue

__all__ = ["TRACKER_FORMATS", "bencher", "github_action_benchmark"]

TRACKER_FORMATS = ("github-action-benchmark", "bencher")

_UNITS = {"": "count"}


def github_action_benchmark(
    values: Mapping[str, MetricValue], name: str, *, is_bigger_better: bool = False
) -> list[dict[str, object]]:
    """Return figures for github-action-benchmark, tool customSmallerIsBetter.

    Parameters
    ----------
    values
        Metrics of a run by name; those without a value are left out.
    name
        Of the model; stands before the name of every metric.
    is_bigger_better
        Return the metrics for which lower is worse, for the tool customBiggerIsBetter. By default
        all others are returned.
    """
    return [
        {"name": f"{name}: {key}", "unit": _unit(key), "value": value}
        for key, value in values.items()
        if value is not None and (METRICS[key].worse == "lower") == is_bigger_better
    ]


def bencher(
    values: Mapping[str, MetricValue], name: str
) -> dict[str, dict[str, dict[str, MetricValue]]]:
    """Return figures in Bencher Metric Format.

    The format has no units, so that every measure is named with its own: ``cycles.total (cycles)``.

    Parameters
    ----------
    values
        Metrics of a run by name; those without a value are left out.
    name
        Of the model; names the benchmark.
    """
    measures: dict[str, dict[str, MetricValue]] = {
        f"{key} ({_unit(key)})": {"value": value}
        for key, value in values.items()
        if value is not None
    }
    return {name: measures}


def _unit(key: str) -> str:
    """Return the unit of a metric; a count has one, too."""
    unit = METRICS[key].unit
    return _UNITS.get(unit, unit)
