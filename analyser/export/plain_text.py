"""Names of a report as they may stand in other formats: on one line, of limited length."""

from __future__ import annotations

import re

from tilescope.analyser.shown_text import shown_text

__all__ = ["one_line", "shortened", "xml_text"]

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST_WORD = 200
_LONGEST = 2000


def one_line(text: str) -> str:
    """Return a text without line breaks, control characters and invisible characters."""
    return shown_text(re.sub(r"[\r\n\t]+", " ", text))


def shortened(text: str) -> str:
    """Return a text whose long words, and which itself, miss their middle."""
    words = [_without_middle(word, _LONGEST_WORD) for word in text.split(" ")]
    return _without_middle(" ".join(words), _LONGEST)


def _without_middle(text: str, longest: int) -> str:
    """Return a text of limited length."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def xml_text(text: str) -> str:
    """Return a text with characters that XML 1.0 lacks replaced."""
    return _NOT_XML.sub("�", text)
