"""The catalogue of metrics: one definition of each figure, for every page and command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from sqlalchemy import func, select

from tilescope.analyser.cache import cached
from tilescope.analyser.execution import PHASES, costs, execution, steps
from tilescope.analyser.figures import (
    executed_weights,
    has_memory,
    missing_bytes,
    parallel_efficiency,
    tile_balance,
    tile_rows,
)
from tilescope.analyser.machine import target
from tilescope.reports import schema
from tilescope.reports.schema import vocabulary
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from sqlalchemy import Table

    from tilescope.reports import Report

__all__ = ["METRICS", "Metric", "MetricValue", "metric", "values"]

MetricValue: TypeAlias = int | float | None
Worse: TypeAlias = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """A figure of a report.

    ``compute`` returns None when the report does not hold it, such as cycles of a report without
    a run. ``is_measured`` says that it comes from runs, and so may depend on their data.
    """

    name: str
    unit: str
    definition: str
    worse: Worse
    compute: Callable[[Report], MetricValue]
    is_measured: bool = False


def values(report: Report) -> dict[str, MetricValue]:
    """Return every metric of a report by name, in the order of the catalogue."""
    return {name: metric.compute(report) for name, metric in METRICS.items()}


def metric(name: str) -> Metric:
    """Return a metric of the catalogue.

    Raises
    ------
    BadQuestion
        When there is none of that name; the message names the nearest.
    """
    from difflib import get_close_matches

    from tilescope.analyser.errors import BadQuestion

    if name in METRICS:
        return METRICS[name]
    near = get_close_matches(name, METRICS, n=1, cutoff=0.0)
    raise BadQuestion(f"unknown metric {name!r}; the nearest is {near[0]!r}")


def _total_cycles(report: Report) -> MetricValue:
    """Return the time of all runs."""
    ran = execution(report)
    return ran.total_cycles if ran.n_runs else None


def _total_seconds(report: Report) -> MetricValue:
    """Return the time of all runs in seconds."""
    ran = execution(report)
    return ran.total_cycles / target(report).clock_hz if ran.n_runs else None


def _phase_cycles(phase: str, report: Report) -> MetricValue:
    """Return the time of one phase on the critical path."""
    ran = execution(report)
    return ran.phase_cycles[phase] if ran.n_runs else None


def _executed_sum(column: str, report: Report, phases: tuple[str, ...] = PHASES) -> MetricValue:
    """Return a column of ``step_cost`` summed over all executions of some phases."""
    if not execution(report).n_runs:
        return None
    cost = costs(report).column
    numbers = [PHASES.index(phase) for phase in phases]
    is_counted = np.isin(steps(report).phase[cost["step_id"]], numbers)
    return int((executed_weights(report) * cost[column])[is_counted].sum())


def _tile_memory(row: str, combine: str, report: Report) -> MetricValue:
    """Return the sum or the largest of a row of memory.tile."""
    if not has_memory(report):
        return None
    values = tile_rows(report)[row]
    return int(values.sum() if combine == "sum" else values.max())


def _tiles_over_capacity(report: Report) -> MetricValue:
    """Return how many tiles do not fit."""
    return int(np.count_nonzero(missing_bytes(report))) if has_memory(report) else None


def _peak_not_always_live(report: Report) -> MetricValue:
    """Return the worst step's not-always-live bytes."""
    column = schema.liveness_step.c.not_always_live_bytes
    answer: MetricValue = report.fetch(select(func.max(column)))[0][0]
    return answer


@cached
def _category_bytes(report: Report) -> dict[str, int]:
    """Return the bytes of every category that the report holds."""
    table = schema.memory_category
    return dict(report.fetch(select(table.c.name, table.c.total_bytes)))


def _category(name: str, report: Report) -> MetricValue:
    """Return the bytes of a category; None when nothing was compiled."""
    held = _category_bytes(report)
    return held.get(name, 0) if held else None


def _exchange_code(report: Report) -> MetricValue:
    """Return the bytes of all code of exchanges."""
    held = _category_bytes(report)
    names = (category.name for category in MEMORY_CATEGORIES if category.is_exchange_code)
    return sum(held.get(name, 0) for name in names) if held else None


def _count(table: Table, report: Report) -> MetricValue:
    """Return the number of rows of a table."""
    answer: MetricValue = report.fetch(select(func.count()).select_from(table))[0][0]
    return answer


def _column_sum(table: Table, column: str, report: Report) -> MetricValue:
    """Return a column of a table, summed."""
    answer: MetricValue = report.fetch(select(func.coalesce(func.sum(table.c[column]), 0)))[0][0]
    return answer


def _cycle_metrics() -> list[Metric]:
    """Return the metrics of time."""
    total = Metric(
        "cycles.total",
        "cycles",
        "Cycles of a run on its slowest IPU, summed over the recorded runs",
        "higher",
        _total_cycles,
        is_measured=True,
    )
    phases = [
        Metric(
            f"cycles.{name}",
            "cycles",
            f"Time during which {phase.meaning}, on the slowest IPU of a run, summed over the"
            " recorded runs; the phases add up to cycles.total",
            "higher",
            partial(_phase_cycles, name),
            is_measured=True,
        )
        for name, phase in vocabulary.PHASES.items()
    ]
    efficiency = Metric(
        "parallel.efficiency",
        "ratio",
        "Cycles in which tiles compute or exchange, summed over tiles, as a share of all tiles'"
        " cycles (cycles.total times the number of tiles)",
        "lower",
        parallel_efficiency,
        is_measured=True,
    )
    balance = Metric(
        "tile.balance",
        "ratio",
        "Mean over maximum of the cycles of an IPU's tiles in a compute step, weighted by the"
        " maximum, over all executions",
        "lower",
        tile_balance,
        is_measured=True,
    )
    seconds = Metric(
        "time.total",
        "seconds",
        "Time of cycles.total at the tile clock of the machine",
        "higher",
        _total_seconds,
        is_measured=True,
    )
    return [total, *phases, seconds, efficiency, balance]


def _tile_metric(name: str, definition: str, row: str, combine: str) -> Metric:
    """Return a metric over a row of memory.tile."""
    return Metric(name, "bytes", definition, "higher", partial(_tile_memory, row, combine))


def _memory_metrics() -> list[Metric]:
    """Return the metrics of memory."""
    metrics = [
        _tile_metric(
            "memory.total",
            "Memory of all tiles, including gaps",
            "including_gaps",
            "sum",
        ),
        _tile_metric(
            "memory.total_excluding_gaps",
            "Memory of all tiles, excluding gaps",
            "excluding_gaps",
            "sum",
        ),
        _tile_metric(
            "memory.max_tile", "Memory of the fullest tile, including gaps", "including_gaps", "max"
        ),
        _tile_metric(
            "memory.max_tile_excluding_gaps",
            "Memory of the fullest tile, excluding gaps",
            "excluding_gaps",
            "max",
        ),
        Metric(
            "memory.tiles_over_capacity",
            "tiles",
            "Tiles whose memory or code exceeds the capacity of the tile",
            "higher",
            _tiles_over_capacity,
        ),
        _tile_metric(
            "memory.always_live",
            "Memory that is live at every step, over all tiles",
            "always_live",
            "sum",
        ),
        Metric(
            "memory.peak_not_always_live",
            "bytes",
            "Memory of all tiles that is not always live, at the peak step",
            "higher",
            _peak_not_always_live,
        ),
        Metric(
            "memory.vertex_code",
            "bytes",
            "Code of vertices, once per codelet and tile, over all tiles",
            "higher",
            partial(_category, "vertexCode"),
        ),
        Metric(
            "memory.exchange_code",
            "bytes",
            "Code of internal, host and global exchanges over all tiles",
            "higher",
            _exchange_code,
        ),
    ]
    by_category = [
        Metric(
            f"memory.category.{name}",
            "bytes",
            f"Memory of category {name} over all tiles",
            "higher",
            partial(_category, name),
        )
        for name in MEMORY_CATEGORY
    ]
    return metrics + by_category


def _traffic_metrics() -> list[Metric]:
    """Return the metrics of traffic and work, all summed over executions."""
    rows: list[tuple[str, str, str, str, Worse]] = [
        (
            "exchange.link_bytes",
            "bytes",
            "Bytes that IPUs send to other IPUs, over all executions",
            "link_out_bytes",
            "higher",
        ),
        (
            "host.bytes_in",
            "bytes",
            "Bytes from the host, over all executions",
            "host_in_bytes",
            "higher",
        ),
        (
            "host.bytes_out",
            "bytes",
            "Bytes to the host, over all executions",
            "host_out_bytes",
            "higher",
        ),
        (
            "remote.bytes_in",
            "bytes",
            "Bytes from remote buffers in streaming memory, over all executions",
            "remote_in_bytes",
            "higher",
        ),
        (
            "remote.bytes_out",
            "bytes",
            "Bytes to remote buffers in streaming memory, over all executions",
            "remote_out_bytes",
            "higher",
        ),
        (
            "flops.total",
            "flops",
            "Useful floating-point operations over all executions",
            "flops",
            "neither",
        ),
    ]
    sent = Metric(
        "exchange.bytes",
        "bytes",
        "Bytes that tiles send to tiles, a multicast counted once, over all executions",
        "higher",
        partial(_executed_sum, "total_sent_bytes", phases=("exchange", "global_exchange")),
        is_measured=True,
    )
    others = [
        Metric(name, unit, definition, worse, partial(_executed_sum, column), is_measured=True)
        for name, unit, definition, column, worse in rows
    ]
    return [sent, *others]


def _graph_metrics() -> list[Metric]:
    """Return the metrics of the graph and its program."""
    sets = schema.compute_set
    rows: list[tuple[str, str, Callable[[Report], MetricValue]]] = [
        ("vertices", "Vertices of all compute sets", partial(_column_sum, sets, "n_vertices")),
        (
            "edges",
            "Regions of variables that vertices are connected to",
            partial(_column_sum, sets, "n_edges"),
        ),
        ("compute_sets", "Compute sets", partial(_count, sets)),
        (
            "variables",
            "Variables, message buffers of exchanges included",
            partial(_count, schema.variable),
        ),
        ("steps", "Steps of the flattened program", partial(_count, schema.step)),
    ]
    return [
        Metric(f"graph.{name}", "", definition, "neither", compute)
        for name, definition, compute in rows
    ]


#: Every metric by name.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *_cycle_metrics(),
        *_memory_metrics(),
        *_traffic_metrics(),
        *_graph_metrics(),
    )
}
