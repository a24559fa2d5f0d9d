"""Insights for time: what lengthens the critical path, what to try, and the most it can gain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.compute_sets import codelets
from tilescope.analyser.program.operations import operation_names
from tilescope.analyser.program.plans import plans, product_steps
from tilescope.analyser.program.stages import pipeline, roles_of_steps, stages_of_steps
from tilescope.analyser.quantities import format_percent
from tilescope.analyser.summary.stage_figures import collective_cycles, stage_figures
from tilescope.analyser.time.data_dependent import is_measured, measured
from tilescope.analyser.time.execution import PHASES, costs, execution, joins, steps
from tilescope.analyser.time.selection import Selection, selected_cycles, selected_step_cycles
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilescope.reports import Report

__all__ = [
    "BOUNDS_OF_GAINS",
    "InsightKind",
    "TimeInsight",
    "TimeInsights",
    "advice_on",
    "compute_cycles",
    "gains",
    "least_exchange_cycles",
    "time_insights",
]

InsightKind: TypeAlias = Literal[
    "imbalance",
    "exchange_bound",
    "sync_bound",
    "copies",
    "waiting",
    "stages",
    "collectives",
    "overlap",
    "streaming",
]

#: What the expected gain is, by kind: a bound from figures of the report.
BOUNDS_OF_GAINS: dict[InsightKind, str] = {
    "imbalance": "the cycles of the busiest tile less the mean over all tiles of the IPU",
    "exchange_bound": "the cycles of the exchanges less those that their bytes take at full"
    " bandwidth, received by all tiles evenly",
    "sync_bound": "the cycles of all syncs of the stretch but one",
    "copies": "the cycles of the copies, and of the syncs and exchanges that serve them",
    "waiting": "at every sync, the shortest wait of another IPU",
    "stages": "the runs less what they would take if all stages took their mean",
    "collectives": "the cycles of the collectives, with their syncs and exchanges",
    "overlap": "the lesser of the cycles of I/O and those of compute and exchange",
    "streaming": "the cycles of the copies, which are none where values stay on the tiles",
}

#: A share of the time below which a thing is not worth a sentence.
_WORTH_SAYING = 0.01


@dataclass(frozen=True)
class TimeInsight:
    """Something that costs time.

    Attributes
    ----------
    subject
        The operation, stretch of operations or IPU.
    cost_cycles
        What it takes on the critical path; for ``waiting``, what the IPUs wait together.
    gain_cycles
        The most that the critical path can become shorter, by `BOUNDS_OF_GAINS`. Gains of several
        insights overlap and do not add up.
    text
        What was found.
    advice
        What to try.
    step_ids
        Steps in question, in program order.
    ipu_ids
        IPUs in question; empty for all.
    """

    kind: InsightKind
    subject: str
    cost_cycles: int
    gain_cycles: int
    text: str
    advice: str
    step_ids: tuple[int, ...]
    ipu_ids: tuple[int, ...] = ()

    @property
    def bound(self) -> str:
        """How the expected gain is computed."""
        return BOUNDS_OF_GAINS[self.kind]


@dataclass(frozen=True)
class TimeInsights:
    """What costs time, by expected gain; ``total_cycles`` are of one execution without a run."""

    total_cycles: int
    n_runs: int
    found: tuple[TimeInsight, ...]


@dataclass(frozen=True)
class _Time:
    """Time on the critical path, and what it is computed from.

    ``cycles`` is of shape (n_ipus, n_steps); ``subject`` names the operation of each step.
    """

    total: int
    cycles: NDArray[np.int64]
    step_cycles: NDArray[np.int64]
    phase: NDArray[np.int8]
    subject: tuple[str, ...]

    def of(self, *phases: str) -> NDArray[np.int64]:
        """Return the cycles of every step of some phases, 0 for others; shape (n_steps,)."""
        numbers = [PHASES.index(phase) for phase in phases]
        return np.where(np.isin(self.phase, numbers), self.step_cycles, 0)

    @cached_property
    def subject_number(self) -> NDArray[np.intp]:
        """The operation of every step, numbered in the order they first run; shape (n_steps,)."""
        numbers = {subject: number for number, subject in enumerate(dict.fromkeys(self.subject))}
        return np.array([numbers[subject] for subject in self.subject], dtype=np.intp)

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the steps by operation, and where every operation's steps start."""
        order = np.argsort(self.subject_number, kind="stable")
        n_subjects = int(self.subject_number.max(initial=-1)) + 1
        return order, np.searchsorted(self.subject_number[order], np.arange(n_subjects + 1))

    def steps_of(self, number: int) -> NDArray[np.intp]:
        """Return the steps of an operation in program order."""
        order, start = self._ordered
        return order[start[number] : start[number + 1]]

    @property
    def least(self) -> int:
        """Cycles that are worth a sentence."""
        return max(1, int(_WORTH_SAYING * self.total))


@cached
def time_insights(report: Report, run_id: int | None = None) -> TimeInsights:
    """Return what costs time in all recorded runs or one, the largest expected gain first.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    time = _time(report, run_id)
    insights_ = [
        *_imbalances(report, time, run_id),
        *_stretches(report, time),
        *_copies(report, time),
        # In a pipeline, what an IPU waits says little: the whole gains by equal stages.
        *(_waits(report, time, run_id) if pipeline(report) is None else ()),
        *_stages(report, run_id),
        *_collectives(report, time, run_id),
        *_overlap(report, time),
        *_streaming(report, time),
    ]
    worth = [insight for insight in insights_ if insight.gain_cycles >= time.least]
    worth.sort(key=lambda insight: (-insight.gain_cycles, insight.kind, insight.subject))
    return TimeInsights(time.total, execution(report, run_id).n_runs, tuple(worth))


@cached
def gains(report: Report, run_id: int | None = None) -> dict[InsightKind, int]:
    """Return the most that the critical path can become shorter by each kind, over all steps.

    `BOUNDS_OF_GAINS` says how; a stretch is the whole program. Gains overlap and do not add up.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    time = _time(report, run_id)
    every = np.arange(len(time.phase))
    exchange = time.of("exchange", "global_exchange")
    sync = np.where(joins(report), 0, time.of("sync"))
    mean, busiest = compute_cycles(report, run_id)
    return {
        "imbalance": int((busiest - mean).sum()),
        "exchange_bound": int(exchange.sum()) - _least_exchange_cycles(report, time, every),
        "sync_bound": _sync_gain(sync),
        "waiting": sum(insight.gain_cycles for insight in _waits(report, time, run_id)),
        "overlap": sum(
            insight.gain_cycles for insight in (*_overlap(report, time), *_streaming(report, time))
        ),
    }


@cached
def compute_cycles(report: Report, run_id: int | None = None) -> NDArray[np.float64]:
    """Return what the mean tile and the busiest take of every step on the critical path.

    Returns
    -------
    ndarray of float64, shape (2, n_steps), cycles
        The mean is over all tiles of the IPU: the time of the step if its work was spread evenly.
        Busiest less mean is imbalance. 0 for steps that do not compute.
    """
    answer = np.zeros((2, len(steps(report))))
    for row, shares in enumerate(_compute_shares(report, _time(report, run_id), run_id)):
        np.add.at(answer[row], costs(report).column["step_id"], shares)
    answer.flags.writeable = False
    return answer


def least_exchange_cycles(report: Report, step_ids: Iterable[int]) -> int:
    """Return what exchanges take at full bandwidth, received by all tiles evenly, over all runs.

    Exchanges between IPUs count with what they take.
    """
    inside = np.array(list(step_ids), dtype=np.intp)
    return _least_exchange_cycles(report, _time(report, None), inside)


def advice_on(kind: InsightKind, *, has_idle_tiles: bool = False, is_planned: bool = False) -> str:
    """Return what to try against imbalance, exchanges or syncs.

    Parameters
    ----------
    kind
        ``imbalance``, ``exchange_bound`` or ``sync_bound``.
    has_idle_tiles
        Whether more than half of the tiles have no work.
    is_planned
        Whether the planner decided how the operation is split.
    """
    if kind == "exchange_bound":
        return (
            "Move less: keep producer and consumer on the same tiles, use a smaller type if there"
            " is one, or spread the data that the busiest tile receives."
        )
    if kind == "sync_bound":
        return (
            "Do more between syncs: merge small operations into one, or independent ones into"
            " one compute set, so that they share an exchange."
        )
    if has_idle_tiles:
        plan = "plan it with a larger availableMemoryProportion, " if is_planned else ""
        return (
            f"Use more of the tiles: {plan}map its operands to more tiles, or run it beside another"
            " operation in one compute set."
        )
    return "Even out the work: map operands so that tiles get equal parts."


def _sync_gain(sync: NDArray[np.int64]) -> int:
    """Return the cycles of all syncs of a stretch but one, shape (n_steps,) with 0 for others."""
    cost, n_syncs = int(sync.sum()), int(np.count_nonzero(sync))
    return cost - cost // max(n_syncs, 1)


def _time(report: Report, run_id: int | None) -> _Time:
    """Return the time on the critical path; without a run, of the IPU that takes longest."""
    selection = Selection(run_id=run_id)
    ran, every = execution(report, run_id), steps(report)
    cycles = ran.critical_cycles
    if not ran.n_runs:
        column = costs(report).column
        own_cycles = np.zeros(cycles.shape, dtype=np.int64)
        own_cycles[column["ipu_id"], column["step_id"]] = column["cycles"]
        cycles = np.where(
            np.arange(len(own_cycles))[:, None] == own_cycles.argmax(axis=0), own_cycles, 0
        )
    return _Time(
        selected_cycles(report, selection),
        cycles,
        selected_step_cycles(report, selection),
        every.phase,
        operation_names(report),
    )


def _compute_shares(
    report: Report, time: _Time, run_id: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cycles on the critical path of the mean tile and of the busiest.

    Both for every row of the costs; 0 for steps that do not compute.
    """
    column, n_tiles = costs(report).column, target(report).tiles_per_ipu
    step_id, ipu_id = column["step_id"], column["ipu_id"]
    busiest, total = (
        column[name].astype(float) for name in ("max_tile_cycles", "total_tile_cycles")
    )
    cycles = column["cycles"].astype(float)
    by_ipu = measured(report, run_id)
    for row in np.flatnonzero(is_measured(report)[step_id]).tolist():
        counted = by_ipu.get(int(ipu_id[row]))
        if counted is not None:  # data decide: what the executions took replaces the estimate
            is_own = counted.step_id == step_id[row]
            busiest[row] = cycles[row] = counted.count[is_own] @ counted.max_tile_cycles[is_own]
            total[row] = counted.count[is_own] @ counted.total_tile_cycles[is_own]
    cycles_taken = time.cycles[ipu_id, step_id]
    cycles_taken = np.where(time.phase[step_id] == PHASES.index("compute"), cycles_taken, 0)
    rate = np.divide(cycles_taken, cycles, out=np.zeros(len(cycles)), where=cycles > 0)
    return total / n_tiles * rate, busiest * rate


def _imbalances(report: Report, time: _Time, run_id: int | None) -> list[TimeInsight]:
    """Return operations whose busiest tile computes for longer than the mean tile."""
    column, n_tiles = costs(report).column, target(report).tiles_per_ipu
    step_id, ipu_id = column["step_id"], column["ipu_id"]
    mean, busiest = _compute_shares(report, time, run_id)
    lost = busiest - mean
    by_step = np.zeros(len(time.phase))
    np.add.at(by_step, step_id, lost)
    planned = {plan.name for plan in plans(report)}
    answer = []
    gains = np.bincount(time.subject_number, weights=by_step).astype(np.int64)
    for number in np.flatnonzero(gains >= time.least).tolist():
        of_subject, gain = time.steps_of(number), int(gains[number])
        of_subject = of_subject[by_step[of_subject] > 0]
        subject = time.subject[of_subject[0]]
        worst = int(of_subject[by_step[of_subject].argmax()])
        row = int(np.flatnonzero(step_id == worst)[lost[step_id == worst].argmax()])
        n_busy = int(column["n_active_tiles"][row])
        of_mean_tile = int(column["total_tile_cycles"][row]) / n_tiles
        answer.append(
            TimeInsight(
                "imbalance",
                subject,
                int(time.of("compute")[of_subject].sum()),
                gain,
                f"{n_busy:,} of {n_tiles:,} tiles compute in {_name(report, worst)}; the busiest"
                f" takes {int(column['max_tile_cycles'][row]):,} cycles, the mean over all tiles"
                f" is {of_mean_tile:,.0f}.",
                advice_on(
                    "imbalance",
                    has_idle_tiles=n_busy < n_tiles // 2,
                    is_planned=subject in planned,
                ),
                tuple(of_subject.tolist()),
                (int(ipu_id[row]),) if target(report).n_ipus > 1 else (),
            )
        )
    return answer


def _name(report: Report, step: int) -> str:
    """Return the name of a step, its kind where it has none."""
    every = steps(report)
    return every.name[step] or every.kind[step]


def _stretches(report: Report, time: _Time) -> list[TimeInsight]:
    """Return stretches of operations in which exchanges, or syncs, take longer than compute."""
    compute = time.of("compute")
    exchange = time.of("exchange", "global_exchange")
    sync = np.where(joins(report), 0, time.of("sync"))
    answer = []
    until = {
        "exchange_bound": np.append(0, np.cumsum(exchange)),
        "sync_bound": np.append(0, np.cumsum(sync)),
    }
    for kind, first, stop in _bound_stretches(time, compute, exchange, sync):
        cost = int(until[kind][stop] - until[kind][first])
        if cost < time.least:
            continue
        inside = np.arange(first, stop)
        spent = exchange if kind == "exchange_bound" else sync
        names = list(dict.fromkeys(time.subject[step] for step in inside.tolist()))
        subject = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        label = "1 operation" if len(names) == 1 else f"{len(names):,} operations"
        share = f"{cost:,} cycles, compute {int(compute[inside].sum()):,}"
        if kind == "exchange_bound":
            gain = cost - _least_exchange_cycles(report, time, inside)
            text = f"In {label}, exchanges take {share}."
        else:
            n_syncs = int(np.count_nonzero(sync[inside]))
            gain = _sync_gain(sync[inside])
            text = f"In {label}, {n_syncs:,} syncs take {share}."
        steps_of_kind = inside[spent[inside] > 0]
        answer.append(
            TimeInsight(
                kind, subject, cost, gain, text, advice_on(kind), tuple(steps_of_kind.tolist())
            )
        )
    return answer


def _bound_stretches(
    time: _Time,
    compute: NDArray[np.int64],
    exchange: NDArray[np.int64],
    sync: NDArray[np.int64],
) -> list[tuple[InsightKind, int, int]]:
    """Return stretches of successive operations with one bound, as half-open ranges of steps."""
    if not time.subject:
        return []
    names = np.array(time.subject, dtype=object)
    firsts = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    stops = np.append(firsts[1:], len(names))
    streams = (time.phase == PHASES.index("stream_copy")).astype(np.int64)
    sums = [np.add.reduceat(part, firsts).tolist() for part in (compute, exchange, sync, streams)]
    stretches: list[tuple[InsightKind | None, int, int]] = []
    for first, stop, busy, moved, waited, copied in zip(
        firsts.tolist(), stops.tolist(), *sums, strict=True
    ):
        kind: InsightKind | None = None
        if not copied and moved > busy and moved >= waited:
            kind = "exchange_bound"
        elif not copied and waited > busy and waited > moved:
            kind = "sync_bound"
        if stretches and stretches[-1][0] == kind:
            stretches[-1] = (kind, stretches[-1][1], stop)
        else:
            stretches.append((kind, first, stop))
    return [(kind, low, high) for kind, low, high in stretches if kind is not None]


def _least_exchange_cycles(report: Report, time: _Time, inside: NDArray[np.intp]) -> int:
    """Return what the bytes of internal exchanges take at full bandwidth, spread over all tiles.

    Of exchanges between IPUs nothing is assumed: they count with what they take.
    """
    machine, column = target(report), costs(report).column
    step_id, ipu_id = column["step_id"], column["ipu_id"]
    rows = np.flatnonzero(np.isin(step_id, inside))
    rows = rows[time.phase[step_id[rows]] == PHASES.index("exchange")]
    received = column["total_received_bytes"][rows] - column["total_paired_bytes"][rows] / 2
    rate = machine.exchange_bytes_per_cycle * machine.tiles_per_ipu
    cycles = np.maximum(column["cycles"][rows], 1)
    times = time.cycles[ipu_id[rows], step_id[rows]] / cycles
    return int(np.ceil((received / rate * times).sum())) + int(
        time.of("global_exchange")[inside].sum()
    )


def _copies(report: Report, time: _Time) -> list[TimeInsight]:
    """Return products whose operands cost more to copy into place than to multiply."""
    every, answer = steps(report), []
    product: dict[int, list[int]] = {}
    for step in product_steps(report):
        product.setdefault(int(time.subject_number[step]), []).append(step)
    copied: dict[str, set[str]] = {}
    for step in _copying_steps(report):
        copied.setdefault(time.subject[step], set()).add(every.name[step])
    planned = {plan.name for plan in plans(report)}
    for number, of_product in product.items():
        subject = time.subject[of_product[0]]
        names = copied.get(subject, set())
        if not names:
            continue
        copying = [
            step
            for step in time.steps_of(number).tolist()
            if every.name[step] in names and step not in of_product
        ]
        cost = int(time.step_cycles[copying].sum())
        multiplied = int(time.step_cycles[of_product].sum())
        if cost > multiplied and cost >= time.least:
            answer.append(
                TimeInsight(
                    "copies",
                    subject,
                    cost,
                    cost,
                    f"Copies that rearrange operands take {cost:,} cycles with their exchanges, the"
                    f" product itself {multiplied:,}.",
                    "Give the operands in the layout of the plan: store weights pre-arranged, reuse"
                    " the arrangement in a loop, or let the producer write it"
                    + (
                        f" ('tilescope ops REPORT --plan {subject}')."
                        if subject in planned
                        else "."
                    ),
                    tuple(copying),
                )
            )
    return answer


def _copying_steps(report: Report) -> tuple[int, ...]:
    """Return the steps whose vertices are all copies."""
    rows = report.rows(schema.compute_set_vertex, "compute_set_id", "vertex_type_id")
    copies = {type_id for type_id, codelet in codelets(report).items() if codelet.is_copy}
    copying = {compute_set_id for compute_set_id, type_id in rows if type_id in copies}
    copying -= {compute_set_id for compute_set_id, type_id in rows if type_id not in copies}
    return tuple(
        step_id
        for step_id, compute_set_id in report.rows(schema.step, "step_id", "compute_set_id")
        if compute_set_id in copying
    )


def _waits(report: Report, time: _Time, run_id: int | None) -> list[TimeInsight]:
    """Return the IPUs that others wait for."""
    ran, n_ipus = execution(report, run_id), target(report).n_ipus
    answer = []
    for late in range(n_ipus):
        caused = ran.caused_cycles[late]
        cost = int(caused.sum())
        late_rows = np.flatnonzero(caused)
        if not cost:
            continue
        waits = np.where(
            ran.executions[:, late_rows] > 0,
            ran.waiting_cycles[:, late_rows],
            np.iinfo(np.int64).max,
        )
        waits[late] = np.iinfo(np.int64).max
        gain = int(np.minimum(waits.min(axis=0), caused[late_rows]).sum())
        waiting = ran.waiting_cycles[:, late_rows].sum(axis=1)
        waiting[late] = 0
        order = [ipu for ipu in np.argsort(-waiting, kind="stable").tolist() if waiting[ipu]]
        who = ", ".join(f"IPU {ipu} for {int(waiting[ipu]):,} cycles" for ipu in order[:4])
        if len(order) > 4:
            who += f" and {len(order) - 4:,} more"
        waited_cycles = np.bincount(time.subject_number, weights=time.cycles[late]).astype(np.int64)
        latest = ""
        if waited_cycles.any():
            longest = int(waited_cycles.argmax())
            latest = (
                f" On its part of the critical path, {time.subject[time.steps_of(longest)[0]]}"
                f" takes most: {int(waited_cycles[longest]):,} cycles."
            )
        answer.append(
            TimeInsight(
                "waiting",
                f"IPU {late}",
                cost,
                gain,
                f"Others wait for IPU {late}: {who}.{latest}",
                f"Give IPU {late} less to do: move operations to the IPUs that wait, or split the"
                " stages differently.",
                tuple(late_rows.tolist()),
                (late, *order),
            )
        )
    return answer


def _stages(report: Report, run_id: int | None) -> list[TimeInsight]:
    """Return the slowest stage of a pipeline, and what equal stages gain; none elsewhere."""
    figures = stage_figures(report, run_id)
    if figures is None:
        return []
    slowest, name = figures.slowest, figures.slowest.stage.name
    of_direction = [
        item.cycles_per_execution
        for item in figures.stages
        if item.stage.direction == slowest.stage.direction
    ]
    mean = sum(of_direction) / len(of_direction)
    return [
        TimeInsight(
            "stages",
            name,
            slowest.cycles,
            figures.balance_gain_cycles,
            f"{name.capitalize()} on IPU {slowest.ipu_id} is the slowest stage: a micro-batch takes"
            f" {slowest.cycles_per_execution:,.0f} cycles, the mean of {slowest.stage.direction}"
            f" stages is {mean:,.0f}. IPUs wait for"
            f" {format_percent(100 * figures.idle_share)} of the time. With equal stages the runs"
            f" would take {figures.balanced_cycles:,} in place of {figures.total_cycles:,} cycles.",
            f"Move operations out of stage {slowest.stage.number} (--pipeline NODE=STAGE,…). What"
            " equal stages still wait is fill and drain: more micro-batches make their share"
            " smaller.",
            tuple(np.flatnonzero([of == slowest.stage for of in stages_of_steps(report)]).tolist()),
            (slowest.ipu_id,),
        )
    ]


def _collectives(report: Report, time: _Time, run_id: int | None) -> list[TimeInsight]:
    """Return what sums over replicas and other collectives take; none without any."""
    cost = collective_cycles(report, run_id)
    if not cost:
        return []
    is_collective = np.array([role == "collective" for role in roles_of_steps(report)], np.bool_)
    return [
        TimeInsight(
            "collectives",
            "Collectives of replicas",
            cost,
            cost,
            f"All {target(report).n_replicas:,} replicas wait for their collectives for {cost:,}"
            f" cycles, {format_percent(100 * cost / time.total)} of the time.",
            "Sum gradients less often: accumulate more micro-batches before an update. Sum several"
            " of them in one collective.",
            tuple(np.flatnonzero(is_collective & (time.step_cycles > 0)).tolist()),
        )
    ]


def _overlap(report: Report, time: _Time) -> list[TimeInsight]:
    """Return what copies from and to the host take, where they could run beside compute."""
    streams = np.where(_is_remote(report, time), 0, time.of("stream_copy"))
    cost = int(streams.sum())
    rest = int(time.of("compute", "exchange", "global_exchange").sum())
    if not cost or not rest:
        return []
    return [
        TimeInsight(
            "overlap",
            "I/O",
            cost,
            min(cost, rest),
            f"Tiles wait for the host for {cost:,} cycles,"
            f" {format_percent(100 * cost / time.total)} of the time.",
            "With several batches, copy the next one while this one computes: dedicate tiles to"
            " I/O and use Overlap.",
            tuple(np.flatnonzero(streams).tolist()),
        )
    ]


def _streaming(report: Report, time: _Time) -> list[TimeInsight]:
    """Return what copies from and to streaming memory take on the compute track."""
    streams = np.where(_is_remote(report, time), time.of("stream_copy"), 0)
    cost = int(streams.sum())
    if not cost:
        return []
    return [
        TimeInsight(
            "streaming",
            "Streaming memory",
            cost,
            cost,
            f"Tiles wait for streaming memory for {cost:,} cycles,"
            f" {format_percent(100 * cost / time.total)} of the time.",
            "Keep less there (--offload), compute more with what is loaded (larger batches), or"
            " compute activations again in place of storing them (--recompute).",
            tuple(np.flatnonzero(streams).tolist()),
        )
    ]


def _is_remote(report: Report, time: _Time) -> NDArray[np.bool_]:
    """Return which steps copy from or to streaming memory, not the host; shape (n_steps,)."""
    cost = costs(report).column
    moved = cost["remote_in_bytes"] + cost["remote_out_bytes"]
    is_of_host = cost["host_in_bytes"] + cost["host_out_bytes"] > 0
    is_remote = np.zeros(len(time.phase), np.bool_)
    is_remote[cost["step_id"][(moved > 0) & ~is_of_host]] = True
    return is_remote
