"""Series of numbers and heatmaps of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.reports import DamagedReport
from tilescope.reports.schema import host_heatmap, host_heatmap_column, host_sample, host_series

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["HeatmapColumns", "SeriesValues", "heatmaps", "series"]


@dataclass(frozen=True)
class SeriesValues:
    """A series of numbers.

    Attributes
    ----------
    graph, unit, name
        Its graph, the unit, and its own name.
    wall_ns : ndarray of int64, shape (n,), nanoseconds
        Since the trace began.
    values : ndarray of float64, shape (n,)
        The numbers.
    """

    graph: str
    unit: str
    name: str
    wall_ns: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class HeatmapColumns:
    """A heatmap.

    Attributes
    ----------
    name, unit
        Its title, and the label of its values.
    edges : ndarray of float64, shape (n_bins + 1,)
        Edges of the bins.
    wall_ns : ndarray of int64, shape (n,), nanoseconds
        Since the trace began.
    counts : ndarray of uint32, shape (n, n_bins)
        Values in every bin.
    """

    name: str
    unit: str
    edges: NDArray[np.float64]
    wall_ns: NDArray[np.int64]
    counts: NDArray[np.uint32]


@cached
def series(report: Report) -> tuple[SeriesValues, ...]:
    """Return all series, in order of their first number.

    Parameters
    ----------
    report
        An open trace.
    """
    names = report.rows(host_series, "graph", "unit", "name")
    numbers, times, values = report.columns(host_sample, "host_series_id", "wall_ns", "value")
    number = np.array(numbers, np.int64)
    wall_ns = np.array(times, np.int64)
    value = np.array([np.nan if v is None else v for v in values], np.float64)
    return tuple(
        SeriesValues(graph, unit, name, wall_ns[number == row], value[number == row])
        for row, (graph, unit, name) in enumerate(names)
    )


@cached
def heatmaps(report: Report) -> tuple[HeatmapColumns, ...]:
    """Return all heatmaps, in order of their first column.

    Parameters
    ----------
    report
        An open trace.

    Raises
    ------
    DamagedReport
        When a column has another number of bins than its heatmap.
    """
    columns: dict[int, list[tuple[int, bytes]]] = {}
    for number, wall_ns, counts in report.rows(
        host_heatmap_column, "host_heatmap_id", "wall_ns", "counts"
    ):
        columns.setdefault(number, []).append((wall_ns, counts))
    found = []
    for row, (name, unit, edges) in enumerate(report.rows(host_heatmap, "name", "unit", "edges")):
        n_bins = len(edges) // 8 - 1
        own = columns.get(row, [])
        if len(edges) % 8 or n_bins < 1 or any(len(data) != 4 * n_bins for _, data in own):
            raise DamagedReport(
                f"A heatmap of {report.name} has columns of another number of bins than its edges."
            )
        counts = np.frombuffer(b"".join(data for _, data in own), "<u4").reshape(-1, n_bins)
        times = np.array([moment for moment, _ in own], np.int64)
        found.append(HeatmapColumns(name, unit, np.frombuffer(edges, "<f8"), times, counts))
    return tuple(found)
