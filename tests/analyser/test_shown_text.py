"""Names are shown without characters that hide or disguise others."""

from __future__ import annotations

import pytest

from tilescope.analyser.shown_text import shown_lines, shown_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv/matmul", "conv/matmul"),
        ("größe → 2", "größe → 2"),
        ("שלום/weight", "שלום/weight"),
        ("conv\u202egnp.exe", "conv�gnp.exe"),
        ("a\u2066b\u2069\u200bc", "a�b��c"),
        ("\ufeffx\u2028y\x85z\x7f", "�x�y�z�"),
        ("a\ud800", "a�"),
        ("a\tb\nc", "a�b�c"),
    ],
)
def test_marks_are_replaced(text: str, shown: str) -> None:
    assert shown_text(text) == shown


def test_lines_stay() -> None:
    assert shown_lines("a\n\tb\x07\r\n") == "a\n\tb�\r\n"
