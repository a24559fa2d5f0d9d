"""What a typed text finds, everywhere: all its words, in any order, whatever their case.

Labels are drawn with punctuation that no name has, such as ``Sync (hand over)`` or ``a → b``, and
people copy them: it does not count at the ends of a word. The scripts of the pages do the same, see
``webapp/assets/search.js``.
"""

from __future__ import annotations

__all__ = ["DRAWN", "search_words", "words_fit"]

#: Punctuation that labels are drawn with.
DRAWN = "()[]{}<>,;:.…·→–—×|\"'`"


def search_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without punctuation at their ends.

    A text of punctuation only is searched for as it stands.
    """
    words = text.lower().split()
    return tuple(core for word in words if (core := word.strip(DRAWN))) or tuple(words)


def words_fit(words: tuple[str, ...], *labels: str) -> bool:
    """Return whether each of the words is in one of the labels; none fit anything."""
    if not words:
        return True
    text = " ".join(labels).lower()
    return all(word in text for word in words)
