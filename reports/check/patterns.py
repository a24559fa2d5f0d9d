"""Facts about arrays with a row per distinct pattern."""

from __future__ import annotations

import numpy as np

from tilescope.reports.reading.report import Report

__all__ = ["PATTERNS_AT_ONCE", "pattern_facts"]

#: Patterns read at once.
PATTERNS_AT_ONCE = 256


def pattern_facts(report: Report, name: str) -> np.ndarray:
    """Return the maximum, sum and nonzero count of every pattern: int64, shape (n_patterns, 3)."""
    patterns = report.array(name)
    facts = np.zeros((len(patterns), 3), np.int64)
    for first in range(0, len(patterns), PATTERNS_AT_ONCE):
        part = patterns.read(first, first + PATTERNS_AT_ONCE)
        facts[first : first + len(part)] = np.stack(
            [part.max(axis=1), part.sum(axis=1), (part > 0).sum(axis=1)], axis=1
        )
    return facts
