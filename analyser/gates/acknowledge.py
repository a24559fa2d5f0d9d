"""Acknowledged regressions: changes that are accepted up to a limit, until a date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tilescope.analyser.gates.gate import limits_of, matches, split_subject
from tilescope.analyser.gates.limit import Limit

__all__ = ["Acknowledgement", "parse_acknowledgement"]


@dataclass(frozen=True)
class Acknowledgement:
    """A regression that does not fail a gate.

    ``until`` is the last day on which it holds. ``limits`` holds the largest accepted change of
    every figure by name; none accepts any change.
    """

    text: str
    metric: str
    selector: str | None
    until: date
    reason: str
    limits: dict[str, Limit] | None

    def has_expired(self, today: date) -> bool:
        """Return whether its last day is over."""
        return today > self.until

    def is_about(self, metric: str, subject: str | None) -> bool:
        """Return whether it is about a figure of an IPU or operation, or of the whole report."""
        if not matches(self.metric, metric) or (self.limits and metric not in self.limits):
            return False
        if self.selector is None or subject is None:
            return self.selector is subject
        return matches(self.selector, subject)


def parse_acknowledgement(
    metric: str, until: date, reason: str, limit: str | None = None
) -> Acknowledgement:
    """Return an acknowledged regression.

    Parameters
    ----------
    metric
        ``METRIC[@SELECTOR]``, as in a gate.
    until
        Last day on which it holds.
    reason
        Why the change is accepted.
    limit
        Largest accepted change; any if None.

    Raises
    ------
    BadQuestion
        When the metric is unknown, or selector or limit do not suit it.
    """
    name, selector, figures = split_subject(metric)
    limits = None if limit is None else limits_of(figures, limit)
    return Acknowledgement(metric, name, selector, until, reason, limits)
