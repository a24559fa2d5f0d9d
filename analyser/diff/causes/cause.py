"""A cause of a difference, and the words for its impact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tilescope.analyser.quantities import format_change, format_percent, percent_of

__all__ = ["OTHERS", "Cause", "CauseKind", "impact_words", "sentence_of", "short"]

CauseKind: TypeAlias = Literal[
    "machine",
    "other model",
    "data",
    "opset",
    "batch",
    "precision",
    "training",
    "version",
    "option",
    "removed",
    "added",
    "arguments",
    "input",
    "plan",
    "mapping",
    "cost",
    "size",
    "runs",
    "steps",
    "weights",
    "names",
    "order",
    "seed",
    "model",
]

#: Subjects of causes that stand for many small ones; these are said after the others.
OTHERS = ("other operations", "other variables")
#: Longest name in a sentence; the middle of a longer one is left out.
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Cause:
    """Why two reports differ.

    Attributes
    ----------
    kind
        What sort of cause: ``cost`` and ``size`` are changes of a step or variable that nothing
        else in the reports explains.
    subject
        Machine, option, operation, variable or step; its name in the baseline if it has one there.
    cycles, bytes
        Impact, candidate minus baseline: cycles that the whole run gains or loses, and bytes of
        variables over all tiles; 0 for a fact without a measure.
    sentence
        One sentence.
    """

    kind: CauseKind
    subject: str
    cycles: int
    bytes: int
    sentence: str


def short(name: str) -> str:
    """Return a name on one line, shortened in the middle if it is long."""
    line = " ".join(name.split()) or "(no name)"
    if len(line) <= _LONGEST_NAME:
        return line
    half = _LONGEST_NAME // 2
    return f"{line[:half]}…{line[-half:]}"


def sentence_of(text: str, cycles: int, n_bytes: int, before: int | None = None) -> str:
    """Return a sentence that ends with its impact."""
    impact = impact_words(cycles, n_bytes, before)
    return f"{text}: {impact}." if impact else f"{text}."


def impact_words(cycles: int, n_bytes: int, before: int | None = None) -> str:
    """Return an impact in words, empty without any; ``before`` are the cycles of the baseline."""
    words = []
    if cycles:
        percent = percent_of(before, cycles)
        share = "" if percent is None else f" ({format_percent(percent, is_signed=True)})"
        words.append(f"{format_change(cycles, 'cycles')}{share}")
    if n_bytes:
        words.append(f"{format_change(n_bytes, 'bytes')} of variables")
    return ", ".join(words)
