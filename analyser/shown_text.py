"""Names of a report as they may be shown: without characters that hide or disguise others.

A control character moves the cursor of a terminal, and a direction mark shows ``exe.png`` where the
name ends in ``gnp.exe`` (Unicode Technical Report 36, "Bidirectional Text Spoofing"). Saved files
and answers for programs keep names as they are. The scripts of the pages do the same, see
``webapp/assets/shown_text.js``.
"""

from __future__ import annotations

import unicodedata

__all__ = ["shown_lines", "shown_text"]

#: Unicode categories that move the cursor, change the writing direction or are invisible.
_HOSTILE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def shown_text(text: str, allowed: str = "") -> str:
    """Return a text with control and invisible characters replaced by a replacement mark.

    Parameters
    ----------
    text
        Of any kind.
    allowed
        Control characters that stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "�" if unicodedata.category(char) in _HOSTILE and char not in allowed else char
        for char in text
    )


def shown_lines(text: str) -> str:
    """Return a text as `shown_text` does; line breaks and tabs stay."""
    return shown_text(text, allowed="\t\n\r")
