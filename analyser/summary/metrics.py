"""The catalogue of metrics: one definition of each figure, for every page and command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target, tile_range
from tilescope.analyser.memory.liveness import not_always_live_bytes
from tilescope.analyser.memory.purposes import purpose_total, stored_activation_bytes
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.program.training import pass_totals
from tilescope.analyser.quantities import per_run
from tilescope.analyser.time.execution import (
    PHASES,
    costs,
    execution,
    ipu_cycles,
    ipu_phase_cycles,
    steps,
)
from tilescope.analyser.time.figures import (
    executed_weights,
    has_memory,
    missing_bytes,
    parallel_efficiency,
    tile_balance,
    tile_cycles,
    tile_rows,
)
from tilescope.analyser.time.selection import Selection
from tilescope.reports import schema
from tilescope.reports.schema import vocabulary
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.reports import Report
    from tilescope.reports.schema import TableSpec

__all__ = [
    "METRICS",
    "Metric",
    "MetricValue",
    "ipu_values",
    "ipu_values_of_run",
    "metric",
    "values",
]

MetricValue: TypeAlias = int | float | None
Worse: TypeAlias = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """A figure of a report.

    Attributes
    ----------
    unit
        Empty for a count.
    definition
        One sentence, without the period at its end.
    worse
        The direction that a gate guards.
    compute
        Returns the figure over all IPUs; None when the report does not hold it, such as cycles
        of a report without a run.
    compute_ipu
        Returns the figure of one IPU; None where it has none.
    ipu_definition
        What it is on one IPU, where that is not the same as the definition for its tiles.
    is_measured
        Whether it comes from runs, and so may depend on their data.
    """

    name: str
    unit: str
    definition: str
    worse: Worse
    compute: Callable[[Report], MetricValue]
    compute_ipu: Callable[[Report, int], MetricValue] | None = None
    ipu_definition: str = ""
    is_measured: bool = False

    @property
    def is_sum_of_runs(self) -> bool:
        """Whether it grows with the number of recorded runs."""
        return self.is_measured and self.unit != "ratio"

    def of_run(self, report: Report, ipu_id: int | None = None) -> MetricValue:
        """Return the figure of one run on average: what comparisons, gates and limits are about.

        Parameters
        ----------
        report
            The report, open.
        ipu_id
            An IPU, for a metric that IPUs have; None for the figure over all IPUs.
        """
        if ipu_id is None:
            value = self.compute(report)
        else:
            value = None if self.compute_ipu is None else self.compute_ipu(report, ipu_id)
        if value is None or not self.is_sum_of_runs:
            return value
        if self.unit == "seconds":  # of cycles, which divide exactly where runs are alike
            cycles = METRICS["cycles.total"].of_run(report, ipu_id)
            return None if cycles is None else cycles / target(report).clock_hz
        return per_run(value, execution(report).n_runs)


def values(report: Report) -> dict[str, MetricValue]:
    """Return every metric of a report by name, in the order of the catalogue."""
    return {name: metric.compute(report) for name, metric in METRICS.items()}


def ipu_values_of_run(report: Report) -> dict[str, tuple[MetricValue, ...]]:
    """Return every metric that IPUs have by name, one value per IPU, of one run on average."""
    ipus = range(target(report).n_ipus)
    return {
        name: tuple(metric.of_run(report, ipu_id) for ipu_id in ipus)
        for name, metric in METRICS.items()
        if metric.compute_ipu is not None
    }


def ipu_values(report: Report) -> dict[str, tuple[MetricValue, ...]]:
    """Return every metric that IPUs have by name, one value per IPU."""
    ipus = range(target(report).n_ipus)
    return {
        name: tuple(metric.compute_ipu(report, ipu_id) for ipu_id in ipus)
        for name, metric in METRICS.items()
        if metric.compute_ipu is not None
    }


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


def _has_run(report: Report) -> bool:
    """Return whether a run was recorded."""
    return execution(report).n_runs > 0


def _total_cycles(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the time of all runs."""
    if not _has_run(report):
        return None
    return execution(report).total_cycles if ipu_id is None else int(ipu_cycles(report)[ipu_id])


def _total_seconds(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the time of all runs in seconds."""
    cycles = _total_cycles(report, ipu_id)
    return None if cycles is None else cycles / target(report).clock_hz


def _phase_cycles(phase: str, report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the time of one phase, on the critical path or on one IPU."""
    if not _has_run(report):
        return None
    if ipu_id is None:
        return execution(report).phase_cycles[phase]
    return int(ipu_phase_cycles(report)[phase][ipu_id])


def _tile_cycles(phase: str, report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return for how long one phase occupies tiles."""
    if not _has_run(report):
        return None
    by_ipu = tile_cycles(report)[PHASES.index(phase)]
    return int(by_ipu.sum() if ipu_id is None else by_ipu[ipu_id])


def _waiting_cycles(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the time in which IPUs wait for others."""
    if not _has_run(report):
        return None
    waiting = execution(report).waiting_cycles
    return int(waiting.sum() if ipu_id is None else waiting[ipu_id].sum())


def _executed_sum(
    column: str, phases: tuple[str, ...], report: Report, ipu_id: int | None = None
) -> MetricValue:
    """Return a column of the costs summed over all executions of some phases."""
    if not _has_run(report):
        return None
    by_ipu = _executed_sums(report, column, phases)
    return sum(by_ipu) if ipu_id is None else by_ipu[ipu_id]


@cached
def _executed_sums(report: Report, column: str, phases: tuple[str, ...]) -> tuple[int, ...]:
    """Return a column of the costs summed over all executions of some phases, by IPU."""
    cost = costs(report).column
    numbers = [PHASES.index(phase) for phase in phases]
    is_counted = np.isin(steps(report).phase[cost["step_id"]], numbers)
    sums = np.zeros(target(report).n_ipus, dtype=np.int64)
    executed = (executed_weights(report) * cost[column])[is_counted]
    np.add.at(sums, cost["ipu_id"][is_counted], executed)
    return tuple(sums.tolist())


def _pass_figure(name: str, figure: str, report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return cycles or FLOPs of a pass of a training step; None outside training."""
    if not _has_run(report):
        return None
    totals = pass_totals(report, Selection(ipu_id))
    if not totals:
        return None
    return next((int(getattr(item, figure)) for item in totals if item.name == name), 0)


def _tiles(report: Report, ipu_id: int | None) -> slice:
    """Return the tiles of one IPU, or all."""
    tiles = tile_range(report, "all" if ipu_id is None else ("ipu", ipu_id))
    return slice(tiles.start, tiles.stop)


def _tile_memory(row: str, combine: str, report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the sum or the largest of a row of memory.tile."""
    if not has_memory(report):
        return None
    values = tile_rows(report)[row][_tiles(report, ipu_id)]
    return int(values.sum() if combine == "sum" else values.max())


def _tiles_over_capacity(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return how many tiles do not fit."""
    if not has_memory(report):
        return None
    return int(np.count_nonzero(missing_bytes(report)[_tiles(report, ipu_id)]))


def _peak_not_always_live(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the worst step's not-always-live bytes."""
    live = not_always_live_bytes(report, "all" if ipu_id is None else ("ipu", ipu_id))
    return int(live.max()) if live.size else None


def _purpose_bytes(name: str, report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return what a purpose takes at the worst step; None where the report does not say."""
    total = purpose_total(report, name, "all" if ipu_id is None else ("ipu", ipu_id))
    return None if total is None else total.peak_bytes


def _stored_bytes(report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the activations live when the backward pass begins; None outside training."""
    return stored_activation_bytes(report, "all" if ipu_id is None else ("ipu", ipu_id))


@cached
def _category_bytes(report: Report) -> dict[str, tuple[int, ...]]:
    """Return the bytes of every category that the report holds, by IPU."""
    n_ipus = target(report).n_ipus
    by_ipu = category_bytes(report).reshape(-1, n_ipus, target(report).tiles_per_ipu).sum(axis=2)
    names = [category.name for category in categories(report)]
    return {name: tuple(row) for name, row in zip(names, by_ipu.tolist(), strict=True)}


def _categories(names: tuple[str, ...], report: Report, ipu_id: int | None = None) -> MetricValue:
    """Return the bytes of some categories; None when nothing was compiled."""
    held = _category_bytes(report)
    if not held:
        return None
    sizes = [held[name] for name in names if name in held]
    return sum(sum(row) if ipu_id is None else row[ipu_id] for row in sizes)


def _count(table: TableSpec, report: Report) -> MetricValue:
    """Return the number of rows of a table."""
    return report.n_rows(table)


def _column_sum(table: TableSpec, column: str, report: Report) -> MetricValue:
    """Return a column of a table, summed."""
    return int(sum(report.column(table, column)))


class _Options(TypedDict, total=False):
    """What a metric with a value per IPU may have, see `Metric`."""

    worse: Worse
    on_ipu: str
    is_measured: bool


def _metric(
    name: str,
    unit: str,
    definition: str,
    compute: Callable[..., MetricValue],
    **options: Unpack[_Options],
) -> Metric:
    """Return a metric that has a value per IPU; ``compute`` takes a report and maybe an IPU."""
    return Metric(
        name,
        unit,
        definition,
        options.get("worse", "higher"),
        compute,
        compute,
        options.get("on_ipu", ""),
        options.get("is_measured", False),
    )


def _cycle_metrics() -> list[Metric]:
    """Return the metrics of time."""
    phases = [
        _metric(
            f"cycles.{name}",
            "cycles",
            f"Time on the critical path during which {phase.meaning}; the phases add up to"
            " cycles.total",
            partial(_phase_cycles, name),
            on_ipu=f"Time during which {phase.meaning} on the IPU, waits for other IPUs included;"
            " the phases add up to the IPU's cycles.total",
            is_measured=True,
        )
        for name, phase in vocabulary.PHASES.items()
    ]
    on_tiles = [
        _metric(
            f"tile_cycles.{name}",
            "cycles",
            f"Cycles for which steps of the phase {name.replace('_', ' ')} occupy tiles, summed"
            " over tiles and executions: a tile's own work and what the step takes beyond its"
            " busiest tile; 0 for a tile without work, all tiles in a sync; waits for other IPUs"
            " excluded",
            partial(_tile_cycles, name),
            is_measured=True,
        )
        for name in vocabulary.PHASES
    ]
    return [
        _metric(
            "cycles.total",
            "cycles",
            "Cycles of a run on its slowest IPU, summed over the recorded runs",
            _total_cycles,
            on_ipu="Cycles of the runs on the IPU",
            is_measured=True,
        ),
        *phases,
        _metric(
            "cycles.waiting",
            "cycles",
            "Cycles in which IPUs wait in an external sync for a later IPU, summed over IPUs",
            _waiting_cycles,
            on_ipu="Cycles in which the IPU waits for a later one; part of its phases",
            is_measured=True,
        ),
        _metric(
            "time.total",
            "seconds",
            "Time of cycles.total at the tile clock of the machine",
            _total_seconds,
            is_measured=True,
        ),
        _metric(
            "parallel.efficiency",
            "ratio",
            "Cycles in which tiles compute or exchange, summed over tiles, as a share of all tiles'"
            " cycles (cycles.total times the number of tiles)",
            parallel_efficiency,
            worse="lower",
            is_measured=True,
        ),
        _metric(
            "tile.balance",
            "ratio",
            "Mean over maximum of the cycles of an IPU's tiles in a compute step, weighted by the"
            " maximum, over all executions",
            tile_balance,
            worse="lower",
            is_measured=True,
        ),
        *on_tiles,
    ]


def _tile_metric(name: str, definition: str, row: str, combine: str) -> Metric:
    """Return a metric over a row of memory.tile."""
    return _metric(name, "bytes", definition, partial(_tile_memory, row, combine))


def _memory_metrics() -> list[Metric]:
    """Return the metrics of memory."""
    exchange_code = tuple(
        category.name for category in MEMORY_CATEGORIES if category.is_exchange_code
    )
    metrics = [
        _tile_metric(
            "memory.total",
            "Bytes that tiles hold at their own worst moment, gaps excluded, summed over tiles",
            "excluding_gaps",
            "sum",
        ),
        _tile_metric(
            "memory.max_tile",
            "Bytes that the fullest tile holds at its worst moment, gaps excluded",
            "excluding_gaps",
            "max",
        ),
        _tile_metric(
            "memory.max_address",
            "One past the highest address in use on any tile, gaps below it included; a tile fits"
            " if it is within its memory",
            "including_gaps",
            "max",
        ),
        _tile_metric(
            "memory.total_including_gaps",
            "One past the highest address in use on a tile, summed over tiles",
            "including_gaps",
            "sum",
        ),
        _metric(
            "memory.tiles_over_capacity",
            "tiles",
            "Tiles that do not fit: an address is past their memory, or code past executable"
            " memory",
            _tiles_over_capacity,
        ),
        _tile_metric(
            "memory.always_live",
            "Bytes that are live at every step, summed over tiles",
            "always_live",
            "sum",
        ),
        _metric(
            "memory.peak_not_always_live",
            "bytes",
            "Bytes that are live but not always, summed over tiles, at the worst step",
            _peak_not_always_live,
            on_ipu="Bytes of the IPU's tiles that are live but not always, at the IPU's worst step",
        ),
        _metric(
            "memory.vertex_code",
            "bytes",
            "Code of vertices, once per codelet and tile, summed over tiles",
            partial(_categories, ("vertexCode",)),
        ),
        _metric(
            "memory.exchange_code",
            "bytes",
            "Code of internal, host and global exchanges, summed over tiles",
            partial(_categories, exchange_code),
        ),
    ]
    by_category = [
        _metric(
            f"memory.category.{name}",
            "bytes",
            f"Bytes of category {name} at tiles' own worst moments, summed over tiles; the"
            " categories add up to memory.total",
            partial(_categories, (name,)),
        )
        for name in MEMORY_CATEGORY
    ]
    by_purpose = [
        _metric(
            f"memory.purpose.{item.key}",
            "bytes",
            f"Bytes of {item.meaning}, summed over tiles, at the step at which most is live; no"
            " value where the report does not say what memory is needed for",
            partial(_purpose_bytes, item.name),
            on_ipu=f"Bytes of {item.meaning}, at the IPU's worst step",
        )
        for item in vocabulary.PURPOSES.values()
    ]
    stored = _metric(
        "memory.stored_activations",
        "bytes",
        "Bytes of activations, summed over tiles, live when the backward pass of a training"
        " step begins; no value outside training",
        _stored_bytes,
        on_ipu="Bytes of activations that are live when the backward pass begins",
    )
    return [*metrics, *by_category, *by_purpose, stored]


def _traffic_metrics() -> list[Metric]:
    """Return the metrics of traffic and work, all summed over executions."""
    exchanges = ("exchange", "global_exchange")
    rows: list[tuple[str, str, str, str, Worse, tuple[str, ...]]] = [
        (
            "exchange.bytes",
            "bytes",
            "Bytes that tiles send to tiles, a multicast counted once, over all executions",
            "total_sent_bytes",
            "higher",
            exchanges,
        ),
        (
            "exchange.link_bytes",
            "bytes",
            "Bytes that IPUs send to other IPUs, over all executions",
            "link_out_bytes",
            "higher",
            PHASES,
        ),
        (
            "host.bytes_in",
            "bytes",
            "Bytes from the host, over all executions",
            "host_in_bytes",
            "higher",
            PHASES,
        ),
        (
            "host.bytes_out",
            "bytes",
            "Bytes to the host, over all executions",
            "host_out_bytes",
            "higher",
            PHASES,
        ),
        (
            "remote.bytes_in",
            "bytes",
            "Bytes from remote buffers in streaming memory, over all executions",
            "remote_in_bytes",
            "higher",
            PHASES,
        ),
        (
            "remote.bytes_out",
            "bytes",
            "Bytes to remote buffers in streaming memory, over all executions",
            "remote_out_bytes",
            "higher",
            PHASES,
        ),
        (
            "flops.total",
            "flops",
            "Useful floating-point operations over all executions",
            "flops",
            "neither",
            PHASES,
        ),
    ]
    return [
        _metric(
            name,
            unit,
            definition,
            partial(_executed_sum, column, phases),
            worse=worse,
            is_measured=True,
        )
        for name, unit, definition, column, worse, phases in rows
    ]


def _training_metrics() -> list[Metric]:
    """Return the metrics of the passes of a training step."""
    figures: tuple[tuple[str, str, str, str, Worse], ...] = (
        (
            "cycles",
            "cycles",
            "Time on the critical path in steps of {}",
            "Time of the IPU in steps of {}, waits for other IPUs included",
            "higher",
        ),
        (
            "flops",
            "flops",
            "Useful floating-point operations of {} over all executions",
            "",
            "neither",
        ),
    )
    return [
        _metric(
            f"{figure}.pass.{item.key}",
            unit,
            f"{definition.format(item.plural)}; no value outside training",
            partial(_pass_figure, item.name, figure),
            worse=worse,
            on_ipu=on_ipu.format(item.plural),
            is_measured=True,
        )
        for figure, unit, definition, on_ipu, worse in figures
        for item in vocabulary.TRAINING_PASSES.values()
    ]


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
        *_training_metrics(),
        *_graph_metrics(),
    )
}
