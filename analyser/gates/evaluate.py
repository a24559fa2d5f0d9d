"""The outcome of gates for two reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilescope.analyser.gates.gate import Gate, figures_named
from tilescope.analyser.gates.subjects import Subject, subjects
from tilescope.analyser.machine.target import target
from tilescope.analyser.quantities import format_change, format_percent, format_value, percent_of
from tilescope.reports.completeness import require_complete

if TYPE_CHECKING:
    from tilescope.analyser.diff import Difference
    from tilescope.analyser.gates.acknowledge import Acknowledgement
    from tilescope.analyser.gates.limit import Limit
    from tilescope.reports import Report

__all__ = ["GateResult", "Status", "evaluate"]

#: ``missing``: a side lacks the figure. ``warned``: outside the limit, or missing, of a gate that
#: only warns. ``acknowledged``: outside the limit, but accepted.
Status: TypeAlias = Literal["passed", "failed", "missing", "warned", "acknowledged"]


@dataclass(frozen=True)
class GateResult:
    """Outcome of a gate for one figure.

    ``missing`` means that the candidate, or the baseline of a gate in percent, lacks the figure.
    ``selector`` is the IPU or the operation; None for a figure of the whole report. ``text`` is the
    outcome in one sentence.
    """

    gate: Gate
    metric: str
    selector: str | None
    unit: str
    status: Status
    baseline: int | float | None
    candidate: int | float | None
    delta: int | float | None
    is_data_dependent: bool
    text: str
    acknowledged_by: Acknowledgement | None = None

    @property
    def name(self) -> str:
        """Figure with its IPU or operation."""
        return self.metric if self.selector is None else f"{self.metric}@{self.selector}"


def evaluate(
    gates: Sequence[Gate],
    difference: Difference,
    baseline: Report,
    candidate: Report,
    *,
    acknowledgements: Sequence[Acknowledgement] = (),
    today: date | None = None,
) -> tuple[GateResult, ...]:
    """Return the outcome of every gate for every figure that it names.

    Parameters
    ----------
    gates
        In the order of the results.
    difference
        Of the two reports.
    baseline, candidate
        The two reports, open.
    acknowledgements
        Accepted regressions; those that have expired do not count.
    today
        The day on which acknowledgements must hold; needed with acknowledgements only.

    Raises
    ------
    DamagedReport
        Rows or chunks of a report do not match their digests: gates verify both in full.
    ReportIncomplete
        A report is still written, ended early, or is not the newest run of its directory.
    """
    if gates:
        require_complete(baseline)
        require_complete(candidate)
    valid = [item for item in acknowledgements if today is None or not item.has_expired(today)]
    clock_hz = target(candidate).clock_hz
    return tuple(
        _acknowledged(result, valid, clock_hz)
        for gate in gates
        for result in _results(gate, difference, (baseline, candidate), clock_hz)
    )


def _results(
    gate: Gate, difference: Difference, reports: tuple[Report, Report], clock_hz: float
) -> Iterator[GateResult]:
    """Yield the outcome of one gate for every figure; one that is missing if it matches none."""
    depends = difference.is_data_dependent
    matched = list(subjects(gate, difference, *reports))
    for subject in matched:
        is_marked = depends and subject.figure.is_measured
        limit = gate.limits[subject.figure.name]
        yield _as_level(_result(gate, subject, limit, clock_hz, is_marked))
    if not matched:
        name = gate.metric if gate.selector is None else f"{gate.metric}@{gate.selector}"
        problem = f"{name} matches nothing" if gate.has_wildcard else f"{name} is missing"
        text = f"{problem} in either report."
        yield _as_level(
            GateResult(
                gate, gate.metric, gate.selector, "", "missing", None, None, None, False, text
            )
        )


def _result(
    gate: Gate, subject: Subject, limit: Limit, clock_hz: float, depends: bool
) -> GateResult:
    """Return the outcome of a gate for one figure."""
    figure, baseline, candidate = subject.figure, subject.baseline, subject.candidate
    facts = (gate, figure.name, subject.selector, figure.unit)
    if candidate is None or (baseline is None and limit.kind == "percent"):
        side = "candidate" if candidate is None else "baseline"
        hint = "" if candidate is None else "; use a limit without % for a new figure"
        text = _marked(f"{subject.name} is missing in the {side}{hint}.", depends)
        return GateResult(*facts, "missing", baseline, candidate, None, depends, text)
    delta = candidate - (baseline or 0)
    has_passed = _is_within(limit, figure.worse, delta, baseline or 0, clock_hz)
    text = _marked(_sentence(subject, limit, delta, has_passed), depends)
    status: Status = "passed" if has_passed else "failed"
    return GateResult(*facts, status, baseline, candidate, delta, depends, text)


def _is_within(limit: Limit, worse: str, delta: float, baseline: float, clock_hz: float) -> bool:
    """Return whether a change keeps to a limit."""
    allowed = limit.amount_of(baseline, clock_hz)
    return Fraction(delta) >= allowed if worse == "lower" else Fraction(delta) <= allowed


def _as_level(result: GateResult) -> GateResult:
    """Return an outcome; that of a gate that only warns is a warning."""
    if result.gate.level == "warn" and result.status != "passed":
        return replace(result, status="warned")
    return result


def _acknowledged(
    result: GateResult, acknowledgements: Sequence[Acknowledgement], clock_hz: float
) -> GateResult:
    """Return an outcome; acknowledged if it is outside its limit and this is accepted."""
    if result.status not in {"failed", "warned"} or result.delta is None:
        return result
    (figure,) = figures_named(result.metric)
    for item in acknowledgements:
        if not item.is_about(result.metric, result.selector):
            continue
        limit = None if item.limits is None else item.limits[result.metric]
        if limit is None or _is_within(
            limit, figure.worse, result.delta, result.baseline or 0, clock_hz
        ):
            accepted = "" if limit is None else f" up to {limit.text}"
            text = (
                f"{result.text} Acknowledged{accepted} until {item.until.isoformat()}:"
                f" {item.reason.rstrip('.')}."
            )
            return replace(result, status="acknowledged", text=text, acknowledged_by=item)
    return result


def _sentence(subject: Subject, limit: Limit, delta: float, has_passed: bool) -> str:
    """Return the outcome for a figure in one sentence."""
    unit = subject.figure.unit
    amount = format_change(delta, unit, "bytes")
    percent = percent_of(subject.baseline, delta)
    if percent is not None and delta:
        amount += f", {format_percent(percent, is_signed=True)}"
    before = "new" if subject.baseline is None else format_value(subject.baseline, unit, "bytes")
    verdict = "within" if has_passed else "outside"
    return (
        f"{subject.name}: {before} → {format_value(subject.candidate, unit, 'bytes')} ({amount}),"
        f" {verdict} the limit {limit.text}."
    )


def _marked(text: str, depends: bool) -> str:
    """Return a sentence, with a warning if its figure is data-dependent."""
    return f"{text} These cycles are data-dependent." if depends else text
