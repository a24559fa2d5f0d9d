"""Live variables of two reports side by side, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.analyser.diff.pairs import SizeChange, size_changes

if TYPE_CHECKING:
    from tilescope.analyser.liveness import LiveVariables

__all__ = ["live_variable_changes"]


def live_variable_changes(
    baseline: LiveVariables | None, candidate: LiveVariables | None
) -> tuple[SizeChange, ...]:
    """Return the bytes of live variables by name, the largest change first; equal ones by name.

    Parameters
    ----------
    baseline, candidate
        What is live on either side; None where a report does not have the step.
    """
    found = size_changes(_sizes(baseline), _sizes(candidate))
    return tuple(sorted(found, key=lambda change: (-abs(change.delta), change.key)))


def _sizes(found: LiveVariables | None) -> dict[str, int]:
    """Return bytes by name; equal names are summed."""
    sizes: dict[str, int] = {}
    if found is not None:
        for name, size in zip(found.name, found.bytes.tolist(), strict=True):
            sizes[name] = sizes.get(name, 0) + size
    return sizes
