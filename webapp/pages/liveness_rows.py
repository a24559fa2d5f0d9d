"""Rows of the grids of liveness: variables of one report or two, the tightest steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.analyser.liveness import Curve, LiveVariables
from tilescope.analyser.quantities import format_change_of
from tilescope.webapp.figures.liveness import matching_steps

__all__ = ["compare_variables", "tightest_rows", "variable_rows"]

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


def compare_variables(
    one: LiveVariables | None, other: LiveVariables | None
) -> list[dict[str, Any]]:
    """Return the sizes of variables of two reports by name, the largest change first."""
    sides = [_sizes(side) for side in (one, other)]
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        before, after = (side.get(name) for side in sides)
        delta = (after or 0) - (before or 0)
        only = "" if before is not None and after is not None else (
            " (only in source)" if after is None else " (only in target)"
        )  # fmt: skip
        rows.append(
            {
                "name": name,
                "source": before,
                "target": after,
                "delta": delta,
                "diff": format_change_of(before, delta, "bytes") + only,
            }
        )
    rows.sort(key=lambda row: (-abs(row["delta"]), row["name"]))
    return rows[:_MAX_ROWS]


def _sizes(found: LiveVariables | None) -> dict[str, int]:
    """Return bytes by name; equal names are summed."""
    sizes: dict[str, int] = {}
    if found is not None:
        for name, size in zip(found.name, found.bytes.tolist(), strict=True):
            sizes[name] = sizes.get(name, 0) + size
    return sizes


def tightest_rows(live: Curve, text: str) -> list[dict[str, Any]]:
    """Return the steps with most live memory among those that match."""
    found = matching_steps(live, text)
    order = found[np.argsort(-live.not_always_live_bytes[found], kind="stable")][:_N_TIGHTEST]
    return [
        {
            "step": step,
            "bytes": int(live.not_always_live_bytes[step]),
            "kind": live.kind[step],
            "name": live.name[step],
        }
        for step in order.tolist()
    ]
