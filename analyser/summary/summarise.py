"""The summary of a report: rows of label and value that pages and commands show alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import Target, target
from tilescope.analyser.memory.purposes import purpose_totals, stored_activation_bytes
from tilescope.analyser.program.plans import Plans, plans
from tilescope.analyser.program.training import pass_totals
from tilescope.analyser.quantities import MISSING, BytesStyle, format_exact, format_value
from tilescope.analyser.summary.loss import (
    LossCurve,
    TrainingStep,
    format_loss,
    json_number,
    loss_curve,
)
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.overflow import Overflow, overflows
from tilescope.analyser.summary.provenance import provenance
from tilescope.analyser.summary.stage_figures import (
    IpuTime,
    collective_cycles,
    ipu_memory,
    stage_figures,
)
from tilescope.analyser.time.execution import PHASES, execution
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import PHASE_LABELS, PURPOSES, TRAINING_PASSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Notice", "OptionRow", "Row", "Summary", "comparable_sections", "summarise"]


@dataclass(frozen=True)
class Row:
    """A labelled value: ``value`` is raw in ``unit``, ``text`` for people, ``exact`` unrounded.

    ``key`` is stable and carries the unit; it names the row in JSON.
    """

    key: str
    label: str
    value: object
    unit: str
    text: str
    exact: str


@dataclass(frozen=True)
class OptionRow:
    """An option in effect and where it came from."""

    name: str
    value: str
    origin: str
    has_effect: bool


@dataclass(frozen=True)
class Notice:
    """What the engine had to tell; ``severity`` is info, warning or error."""

    severity: str
    code: str
    message: str


@dataclass(frozen=True)
class Summary:
    """What a report is about, in rows."""

    path: str
    milestones: tuple[str, ...]
    target: tuple[Row, ...]
    graph: tuple[Row, ...]
    memory: tuple[Row, ...]
    execution: tuple[Row, ...]
    provenance: tuple[Row, ...]
    options: tuple[OptionRow, ...]
    notices: tuple[Notice, ...]
    plans: Plans
    training: tuple[Row, ...] = ()
    purposes: tuple[Row, ...] = ()
    stages: tuple[Row, ...] = ()
    replicas: tuple[Row, ...] = ()

    @property
    def sections(self) -> dict[str, tuple[Row, ...]]:
        """The sections of rows by title, in the order they are shown; only those with rows.

        Training, stages and replicas are sections of reports that have them.
        """
        return {
            "Machine": self.target,
            "Graph": self.graph,
            "Memory": self.memory,
            **({"Memory by purpose": self.purposes} if self.purposes else {}),
            "Execution": self.execution,
            **({"Stages": self.stages} if self.stages else {}),
            **({"Replicas": self.replicas} if self.replicas else {}),
            **({"Training": self.training} if self.training else {}),
            "Provenance": self.provenance,
        }


@cached
def summarise(report: Report, style: BytesStyle | None = None) -> Summary:
    """Return the summary of a report; ``style`` says how bytes are written in ``text``."""
    has_target = bool(report.n_rows(schema.target))
    return Summary(
        report.name,
        tuple(report.milestones),
        _target_rows(target(report), style) if has_target else (),
        _metric_rows(report, _GRAPH_ROWS, style),
        _memory_rows(report, style) if has_target else (),
        _execution_rows(report, style) if has_target else (),
        _provenance_rows(report),
        _options(report),
        _notices(report),
        plans(report),
        _training_rows(report, style) if has_target else (),
        _purpose_rows(report, style) if has_target else (),
        _stage_rows(report, style) if has_target else (),
        _replica_rows(report, style) if has_target else (),
    )


def _row(key: str, label: str, value: object, unit: str, style: BytesStyle | None) -> Row:
    """Return a row whose key carries the unit."""
    suffix = {"bytes": "_bytes", "cycles": "_cycles", "seconds": "_s", "hertz": "_hz"}.get(unit, "")
    key = key if not suffix or key.endswith(suffix) else f"{key}{suffix}"
    return Row(key, label, value, unit, format_value(value, unit, style), format_exact(value, unit))


#: Units of figures that are summed over the recorded runs.
_SUMMED_UNITS = ("cycles", "seconds", "bytes", "flops")


def comparable_sections(
    baseline: Summary, candidate: Summary, style: BytesStyle | None = None
) -> tuple[dict[str, tuple[Row, ...]], dict[str, tuple[Row, ...]]]:
    """Return the sections of two summaries; sums over runs are per run."""
    runs = [_n_runs(summary) for summary in (baseline, candidate)]
    if runs == [1, 1] or not all(runs):
        return baseline.sections, candidate.sections
    baseline_sections, candidate_sections = (
        summary.sections
        | {
            title: tuple(_per_run(row, n_runs, style) for row in summary.sections[title])
            for title in ("Execution", "Stages", "Replicas", "Training")
            if title in summary.sections
        }
        for summary, n_runs in zip((baseline, candidate), runs, strict=True)
    )
    return baseline_sections, candidate_sections


def _n_runs(summary: Summary) -> int:
    """Return the number of recorded runs."""
    return next((int(str(row.value)) for row in summary.execution if row.key == "n_runs"), 0)


def _per_run(row: Row, n_runs: int, style: BytesStyle | None) -> Row:
    """Return a sum over runs as the mean of a run, to a whole number where the sum is one."""
    if row.unit not in _SUMMED_UNITS or not isinstance(row.value, int | float):
        return row
    value = round(row.value / n_runs) if isinstance(row.value, int) else row.value / n_runs
    return _row(row.key, f"{row.label} per run", value, row.unit, style)


def _target_rows(machine: Target, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of the machine, as PopVision orders them."""
    rows: list[tuple[str, str, object, str]] = [
        ("target_type", "Type", machine.target_type, ""),
        ("name", "Name", machine.name, ""),
        ("architecture", "Architecture", machine.architecture, ""),
        ("parameter_set", "Parameter set", machine.parameter_set, ""),
        ("tiles_per_ipu", "Tiles per IPU", machine.tiles_per_ipu, ""),
    ]
    if machine.n_replicas > 1:
        rows += [
            ("ipus_per_replica", "IPUs per replica", machine.n_ipus, ""),
            ("n_replicas", "Replicas", machine.n_replicas, ""),
        ]
    n_ipus, tiles_memory = machine.n_ipus * machine.n_replicas, machine.bytes_per_tile
    ipu_bytes = machine.tiles_per_ipu * tiles_memory
    rows += [
        ("n_tiles", "Total tiles", n_ipus * machine.tiles_per_ipu, ""),
        ("n_ipus", "Total IPUs", n_ipus, ""),
        ("tile_memory", "Memory per tile", tiles_memory, "bytes"),
        ("ipu_memory", "Memory per IPU", ipu_bytes, "bytes"),
    ]
    if machine.n_replicas > 1:
        rows.append(("replica_memory", "Memory per replica", ipu_bytes * machine.n_ipus, "bytes"))
    rows += [
        ("total_memory", "Total memory", ipu_bytes * n_ipus, "bytes"),
        ("clock", "Tile clock", machine.clock_hz, "hertz"),
    ]
    return tuple(_row(*row, style) for row in rows)


#: Metric, label.
_GRAPH_ROWS = (
    ("graph.compute_sets", "Compute sets"),
    ("graph.edges", "Edges"),
    ("graph.variables", "Variables"),
    ("graph.vertices", "Vertices"),
    ("graph.steps", "Program steps"),
)
_MEMORY_ROWS = (
    ("memory.total", "Total"),
    ("memory.max_tile", "Fullest tile"),
    ("memory.max_address", "Highest address, gaps included"),
    ("memory.tiles_over_capacity", "Tiles over capacity"),
    ("memory.always_live", "Always live"),
    ("memory.peak_not_always_live", "Not always live, at the worst step"),
    ("memory.vertex_code", "Vertex code"),
    ("memory.exchange_code", "Exchange code"),
)
_TILE_ROWS = tuple(
    (f"tile_cycles.{phase}", f"Tile cycles: {PHASE_LABELS[phase]}") for phase in PHASES
)
_TRAFFIC_ROWS = (
    ("parallel.efficiency", "Parallel efficiency"),
    ("tile.balance", "Tile balance"),
    ("exchange.bytes", "Exchanged"),
    ("exchange.link_bytes", "Between IPUs"),
    ("host.bytes_in", "From the host"),
    ("host.bytes_out", "To the host"),
    ("remote.bytes_in", "From remote buffers"),
    ("remote.bytes_out", "To remote buffers"),
    ("flops.total", "Floating-point operations"),
)


def _metric_rows(
    report: Report, metrics: tuple[tuple[str, str], ...], style: BytesStyle | None
) -> tuple[Row, ...]:
    """Return rows of the metric catalogue; their keys are the metrics' names with their unit."""
    rows = []
    for name, label in metrics:
        metric = METRICS[name]
        key = name.partition(".")[2] if name.startswith(("graph.", "memory.")) else name
        value = metric.compute(report)
        rows.append(_row(key.replace(".", "_"), label, value, metric.unit, style))
    return tuple(rows)


def _memory_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of memory, with the share of the fullest tile."""
    rows = _metric_rows(report, _MEMORY_ROWS, style)
    largest = METRICS["memory.max_tile"].compute(report)
    share = None if largest is None else largest / target(report).capacity_bytes
    return (
        *rows[:2],
        _row("max_tile_share", "Fullest tile, of its capacity", share, "ratio", style),
        *rows[2:],
    )


def _execution_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of time; only the number of runs when there was none."""
    ran = execution(report)
    rows = [_row("n_runs", "Recorded runs", ran.n_runs, "", style)]
    if not ran.n_runs:
        return tuple(rows)
    total = ran.total_cycles
    rows += [
        _row("total", "Cycles", total, "cycles", style),
        _row(
            "machine_time",
            "Time on the machine",
            METRICS["time.total"].compute(report),
            "seconds",
            style,
        ),
    ]
    for phase in PHASES:
        cycles = ran.phase_cycles[phase]
        row = _row(phase, PHASE_LABELS[phase], cycles, "cycles", style)
        rows.append(_with_share(row, total))
    tile_rows = _metric_rows(report, _TILE_ROWS, style)
    tile_total = sum(row.value for row in tile_rows if isinstance(row.value, int))
    rows += [_with_share(row, tile_total) for row in tile_rows]
    rows += _metric_rows(report, _TRAFFIC_ROWS, style)
    rows.append(
        _row("is_data_dependent", "Data-dependent cycles", ran.is_data_dependent, "", style)
    )
    return tuple(rows)


def _purpose_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of memory by purpose, where most is live; none where that is not stated."""
    totals = [item for item in purpose_totals(report) if item.most_bytes]
    total = sum(item.peak_bytes for item in totals)
    rows = [
        _with_share(
            _row(PURPOSES[item.name].key, item.label, item.peak_bytes, "bytes", style), total
        )
        for item in totals
    ]
    stored = stored_activation_bytes(report)
    if stored is not None:
        label = "Activations when the backward pass begins"
        rows.append(_row("stored_activations", label, stored, "bytes", style))
    return tuple(rows)


def _stage_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of a pipeline: its stages, what IPUs wait and stash, what balance gains."""
    figures = stage_figures(report)
    if figures is None:
        return ()
    total, slowest = figures.total_cycles, figures.slowest.stage.name
    rows = [
        _with_share(
            _row(
                item.stage.name.replace(" ", "_"),
                f"{item.stage.name.capitalize()}, IPU {item.ipu_id}",
                item.cycles,
                "cycles",
                style,
            ),
            total,
        )
        for item in figures.stages
    ]
    rows += [
        _with_share(
            _row(f"ipu_{ipu.ipu_id}_{key}", f"IPU {ipu.ipu_id} {words}", cycles, "cycles", style),
            total,
        )
        for key, words, cycles_of in _IPU_ROWS
        for ipu in figures.ipus
        if (cycles := cycles_of(ipu)) or key == "waiting"
    ]
    rows += [
        _row("idle_share", "Idle, of all IPUs", figures.idle_share, "ratio", style),
        _row("bubble_share", "Bubble, of work and waits", figures.bubble_share, "ratio", style),
        Row("slowest_stage", "Slowest stage", slowest, "", slowest, slowest),
        _row("balanced", "Cycles with equal stages", figures.balanced_cycles, "cycles", style),
    ]
    rows += [
        _row(
            f"ipu_{item.ipu_id}_stash",
            f"Stashes, IPU {item.ipu_id}",
            item.stash_bytes,
            "bytes",
            style,
        )
        for item in ipu_memory(report)
    ]
    return tuple(rows)


#: What else IPUs do, for people; how it is counted is the figures' own definition.
_IPU_ROWS: tuple[tuple[str, str, Callable[[IpuTime], int]], ...] = (
    ("waiting", "waits", lambda ipu: ipu.waiting_cycles),
    ("copy", "copies between IPUs", lambda ipu: ipu.copy_cycles),
    ("host", "copies of the host", lambda ipu: ipu.host_cycles),
    ("collective", "collectives", lambda ipu: ipu.collective_cycles),
    ("other", "outside stages", lambda ipu: ipu.other_cycles),
)


def _replica_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of a program on several replicas; none for one."""
    n_replicas, ran = target(report).n_replicas, execution(report)
    if n_replicas == 1:
        return ()
    rows = [_row("n_replicas", "Replicas", n_replicas, "", style)]
    computed = provenance(report).get("computed_replicas")
    if computed is not None:
        rows.append(Row("n_computed", "Computed replicas", computed, "", computed, computed))
    if ran.n_runs:
        cycles = collective_cycles(report)
        row = _row("collective", "Collectives", cycles, "cycles", style)
        rows.append(_with_share(row, ran.total_cycles))
    return tuple(rows)


def _training_rows(report: Report, style: BytesStyle | None) -> tuple[Row, ...]:
    """Return the rows of a training: its passes and its loss; none for inference."""
    totals = pass_totals(report)
    total = sum(item.cycles for item in totals)
    keyed = [(TRAINING_PASSES[item.name].key if item.name else "no_pass", item) for item in totals]
    rows = [
        _with_share(_row(key, item.label, item.cycles, "cycles", style), total)
        for key, item in keyed
    ]
    rows += [
        _row(
            f"{TRAINING_PASSES[item.name].key}_flops",
            f"{item.label}, FLOPs",
            item.flops,
            "flops",
            style,
        )
        for item in totals
        if item.name
    ]
    return (*rows, *_loss_rows(loss_curve(report)), *map(_overflow_row, overflows(report)))


def _overflow_row(overflow: Overflow) -> Row:
    """Return a row of the values of a pass that were beyond half."""
    item = TRAINING_PASSES[overflow.training_pass]
    steps = "step" if overflow.n_steps == 1 else f"{overflow.n_steps:,} steps, first"
    text = f"{overflow.n_values:,} ({steps} {overflow.first_step:,})"
    label = f"{item.label}, values beyond half"
    return Row(f"n_overflows_{item.key}", label, overflow.n_values, "", text, text)


def _loss_rows(curve: LossCurve) -> list[Row]:
    """Return the rows of a loss curve; none without steps."""
    first, last, least = curve.first, curve.last, curve.least
    if first is None or last is None:
        return []
    rows = [
        _row("n_training_steps", "Training steps", len(curve), "", None),
        _row("n_epochs", "Epochs", curve.n_epochs, "", None),
        _row("n_recorded_steps", "Steps with a recorded run", curve.n_recorded, "", None),
        _loss_row("loss_first", "First loss", first),
        _loss_row("loss_last", "Last loss", last),
    ]
    if least is not None:
        rows.append(_loss_row("loss_least", "Least loss", least))
    if curve.n_not_finite:
        label = "Losses that are not finite"
        rows.append(_row("n_losses_not_finite", label, curve.n_not_finite, "", None))
    rows.append(
        Row("rate_last", "Last learning rate", last.rate, "", f"{last.rate:.6g}", str(last.rate))
    )
    return rows


def _loss_row(key: str, label: str, step: TrainingStep) -> Row:
    """Return a row of the loss of a step."""
    text = f"{format_loss(step.loss)} (step {step.step:,})"
    return Row(key, label, json_number(step.loss), "", text, str(step.loss))


def _with_share(row: Row, total: int) -> Row:
    """Return a row of cycles whose text has its share of a total."""
    if not total or not isinstance(row.value, int):
        return row
    return replace(row, text=f"{row.text} ({row.value / total:.1%})")


def _provenance_rows(report: Report) -> tuple[Row, ...]:
    """Return where the report comes from."""
    return tuple(
        Row(key, _sentence_case(key), value, "", _in_words(value), value or MISSING)
        for key, value in provenance(report).items()
    )


def _in_words(value: str | None) -> str:
    """Return a value of provenance for people: a list of names without its JSON."""
    if not value:
        return MISSING
    if value.startswith("["):
        try:
            return ", ".join(str(load) for load in json.loads(value)) or MISSING
        except (RecursionError, ValueError):
            pass
    return value


def _sentence_case(key: str) -> str:
    """Return a key as a label: ``model_sha256`` becomes ``Model sha256``."""
    words = key.removeprefix("wall_").replace("_", " ")
    return words[:1].upper() + words[1:]


def _options(report: Report) -> tuple[OptionRow, ...]:
    """Return the options in effect by name."""
    rows = report.rows(schema.engine_option, "name", "value", "origin", "has_effect")
    return tuple(OptionRow(*row) for row in sorted(rows))


def _notices(report: Report) -> tuple[Notice, ...]:
    """Return what the engine had to tell, in its order."""
    return tuple(Notice(*row) for row in report.rows(schema.notice, "severity", "code", "message"))
