"""Outcomes of gates as workflow commands of GitHub Actions, which it shows as annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilescope.analyser.export.plain_text import shortened

if TYPE_CHECKING:
    from tilescope.analyser.gates import GateResult

__all__ = ["workflow_commands"]

_COMMANDS = {"failed": "error", "missing": "error", "warned": "warning", "acknowledged": "notice"}
#: GitHub shows ten annotations of a kind per step.
_MOST = 10


def workflow_commands(results: Sequence[GateResult], notes: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a workflow command per failed, warned or acknowledged gate and per note.

    At most ten of a kind are returned, the first ones; the last one says how many follow.
    """
    items_by_level: dict[str, list[tuple[str, str]]] = {"error": [], "warning": [], "notice": []}
    for result in results:
        if result.status in _COMMANDS:
            items_by_level[_COMMANDS[result.status]].append((result.name, result.text))
    items_by_level["warning"] += [("tilescope.toml", note) for note in notes]
    lines = []
    for command, items in items_by_level.items():
        listed = items if len(items) <= _MOST else items[: _MOST - 1]
        lines += [f"::{command} title={_property(name)}::{_data(text)}" for name, text in listed]
        if len(items) > len(listed):
            lines.append(f"::{command} title=Gates::{len(items) - len(listed)} more.")
    return tuple(lines)


def _data(text: str) -> str:
    """Return a message, escaped as GitHub's toolkit does."""
    return shortened(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a property, escaped as GitHub's toolkit does."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
