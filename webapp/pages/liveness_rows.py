"""Rows of the liveness grids: variables of one or two reports, and the tightest steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.analyser.diff import SizeChange
from tilescope.analyser.liveness import Curve, LiveVariables
from tilescope.analyser.quantities import format_change_of
from tilescope.webapp.components.grids import only_on

__all__ = ["changed_rows", "tightest_rows", "variable_rows"]

_MAX_ROWS = 20_000
_N_TIGHTEST = 200


def variable_rows(found: LiveVariables) -> list[dict[str, Any]]:
    """Return variables as rows of a grid."""
    return [
        {
            "name": found.name[place],
            "category": found.category[place],
            "bytes": int(found.bytes[place]),
            "shape": " × ".join(map(str, found.shape[place])),
            "dtype": found.dtype[place],
            "start": int(found.start_step[place]),
            "end": int(found.end_step[place]),
        }
        for place in range(min(len(found), _MAX_ROWS))
    ]


def changed_rows(changes: Sequence[SizeChange]) -> list[dict[str, Any]]:
    """Return the bytes of variables of two reports as rows of a grid."""
    return [
        {
            "name": change.key,
            "baseline": change.baseline,
            "candidate": change.candidate,
            "delta": change.delta,
            "diff": format_change_of(change.baseline, change.delta, "bytes") + only_on(change),
        }
        for change in changes[:_MAX_ROWS]
    ]


def tightest_rows(live: Curve, text: str) -> list[dict[str, Any]]:
    """Return the matching steps with the most live memory."""
    return [
        {
            "step": step,
            "bytes": int(live.not_always_live_bytes[step]),
            "kind": live.kind[step],
            "name": live.name[step],
        }
        for step in live.fullest(_N_TIGHTEST, text).tolist()
    ]
