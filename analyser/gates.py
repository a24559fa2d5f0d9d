"""Gates: the largest change of a metric, baseline to candidate, that passes a check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.metrics import METRICS, metric
from tilescope.analyser.quantities import format_change, format_percent, format_value

if TYPE_CHECKING:
    from tilescope.analyser.diff import Difference, MetricChange

__all__ = ["Gate", "GateResult", "evaluate", "parse_gate"]

#: Factor of each unit that a limit may have; those of memory are for metrics in bytes.
_BYTE_UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_FORM = re.compile(r"([A-Za-z_.]+):([+-]?)(\d{1,18}(?:\.\d{1,9})?)\s*(%|[A-Za-z]*)")


@dataclass(frozen=True)
class Gate:
    """A limit on the change of a metric, candidate minus baseline.

    ``limit`` is signed, in percent of the baseline or in the metric's own unit. A metric for which
    higher is worse may grow by at most the limit (``-5%`` asks it to shrink by 5 % at least); one
    for which lower is worse may change by no less than the limit (``-1%`` lets it fall by 1 %).
    """

    text: str
    metric: str
    limit: Fraction
    is_percent: bool


@dataclass(frozen=True)
class GateResult:
    """Outcome of a gate.

    ``missing`` means that the candidate, or the baseline of a gate in percent, lacks the figure.
    ``text`` is the outcome in one sentence.
    """

    gate: Gate
    status: Literal["passed", "failed", "missing"]
    baseline: int | float | None
    candidate: int | float | None
    delta: int | float | None
    is_data_dependent: bool
    text: str


def parse_gate(text: str) -> Gate:
    """Return the gate written as ``metric:limit``, such as ``cycles.total:+1%``.

    Limits are a percentage of the baseline, an amount of memory (``+1024B``, ``+1KiB``) or a plain
    number in the metric's unit (``+100``).

    Raises
    ------
    BadQuestion
        When the metric is not in the catalogue, or the limit is not one for it.
    """
    name, colon, _ = text.partition(":")
    found = _FORM.fullmatch(text.strip())
    if not colon or found is None:
        if colon and name.strip():
            metric(name.strip())
        raise BadQuestion(
            f"expected METRIC:LIMIT for a gate, got {text!r}; write one"
            " such as cycles.total:+1%, memory.max_tile:+1024B or graph.variables:+100"
        )
    name, sign, number, unit = found.groups()
    wanted = metric(name)
    limit = Fraction(number) * (-1 if sign == "-" else 1)
    if unit == "%":
        return Gate(text, name, limit, is_percent=True)
    if wanted.unit == "bytes" and unit in _BYTE_UNITS:
        return Gate(text, name, limit * _BYTE_UNITS[unit], is_percent=False)
    if unit and unit != wanted.unit:
        allowed = ["%", *(_BYTE_UNITS if wanted.unit == "bytes" else [wanted.unit])]
        words = ", ".join(word for word in allowed if word)
        raise BadQuestion(
            f"gate {text!r} has unit {unit!r}, but {name} allows {words} or a plain number"
        )
    return Gate(text, name, limit, is_percent=False)


def evaluate(gates: Sequence[Gate], difference: Difference) -> tuple[GateResult, ...]:
    """Return the outcome of every gate for a difference."""
    return tuple(_evaluate(gate, difference) for gate in gates)


def _evaluate(gate: Gate, difference: Difference) -> GateResult:
    """Return the outcome of one gate."""
    change, wanted = difference.metric(gate.metric), METRICS[gate.metric]
    depends = wanted.is_measured and difference.is_data_dependent
    if change.candidate is None or (change.baseline is None and gate.is_percent):
        side = "candidate" if change.candidate is None else "baseline"
        hint = "" if change.candidate is None else "; use a limit without % for a new metric"
        text = f"{gate.metric} is missing in the {side}{hint}."
        return GateResult(
            gate,
            "missing",
            change.baseline,
            change.candidate,
            None,
            depends,
            _marked(text, depends),
        )
    baseline = change.baseline or 0
    delta = change.candidate - baseline
    allowed = gate.limit * abs(Fraction(baseline)) / 100 if gate.is_percent else gate.limit
    has_passed = (
        Fraction(delta) >= allowed if wanted.worse == "lower" else Fraction(delta) <= allowed
    )
    text = _sentence(gate, change, delta, has_passed)
    return GateResult(
        gate,
        "passed" if has_passed else "failed",
        change.baseline,
        change.candidate,
        delta,
        depends,
        _marked(text, depends),
    )


def _sentence(gate: Gate, change: MetricChange, delta: float, has_passed: bool) -> str:
    """Return the outcome of a gate in one sentence."""
    unit, limit = change.unit, gate.text.partition(":")[2].strip()
    amount = format_change(delta, unit, "bytes")
    if change.percent_of_baseline is not None and delta:
        amount += f", {format_percent(change.percent_of_baseline, is_signed=True)}"
    before = "new" if change.baseline is None else format_value(change.baseline, unit, "bytes")
    verdict = "within" if has_passed else "outside"
    return (
        f"{gate.metric}: {before} → {format_value(change.candidate, unit, 'bytes')} ({amount}),"
        f" {verdict} the limit {limit}."
    )


def _marked(text: str, depends: bool) -> str:
    """Return a sentence, with a warning if its figure is data-dependent."""
    return f"{text} These cycles are data-dependent." if depends else text
