"""What can go wrong with a question.

AnalyserError               analyser: base of all
└── BadQuestion             bad_question: a step, tile, metric or gate not there or ill-formed
"""

from __future__ import annotations

__all__ = ["AnalyserError", "BadQuestion"]


class AnalyserError(Exception):
    """Base of every error of a question; ``code`` is stable, the text is for people."""

    code = "analyser"
    exit_code = 2


class BadQuestion(AnalyserError):
    """The query names something the report lacks, or is malformed."""

    code = "bad_question"
