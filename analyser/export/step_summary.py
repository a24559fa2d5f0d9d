"""A difference as the step summary of a CI job, within the size that the service accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilescope.analyser.export.markdown import markdown

if TYPE_CHECKING:
    from tilescope.analyser.export.diff_document import DiffDocument

__all__ = ["MOST_BYTES", "step_summary"]

#: GitHub drops a longer summary of a step.
#: Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
MOST_BYTES = 1 << 20
#: What fails stands first where not all gates have room.
_RANK = {"failed": 0, "missing": 0, "warned": 1, "acknowledged": 2, "passed": 3}


def step_summary(document: DiffDocument, most_bytes: int, complete: str) -> str:
    """Return a difference as Markdown, cut after a line to at most a number of bytes.

    Parameters
    ----------
    document
        The difference.
    most_bytes
        Bytes that are left in the summary, UTF-8.
    complete
        Where the whole comparison is, as Markdown; ends the text if that is cut.
    """
    text = markdown(document)
    if len(text.encode()) <= most_bytes:
        return text
    gates = sorted(document.gates, key=lambda gate: _RANK[gate[0]])
    ending = f"\n\n⚠️ **Cut at {MOST_BYTES >> 20} MiB.** {complete}\n"
    room = max(most_bytes - len(ending.encode()), 0)
    kept_text = markdown(replace(document, gates=tuple(gates))).encode()[:room]
    whole_lines = kept_text[: kept_text.rfind(b"\n") + 1].decode()
    return f"{whole_lines.rstrip()}{ending}" if room else ""
