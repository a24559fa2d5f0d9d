"""The page of the corpus: programs beyond two, and what was tried for them."""

from __future__ import annotations

import pytest
from docs.pages import corpus as page

from tilescope.engine.fidelity import packaged_corpus
from tilescope.engine.fidelity.corpus import Corpus, CorpusRow, Figures


def row(name: str, kind: str, cycles: int | None, lacks: str = "", n_passes: int = 1) -> CorpusRow:
    ours = None if cycles is None else Figures(cycles, 1000, 10)
    published = Figures(100, 1000, 10)
    return CorpusRow(name, kind, "gc2", n_passes, published, ours, lacks, "")


def text_of(monkeypatch: pytest.MonkeyPatch, *rows: CorpusRow) -> str:
    monkeypatch.setattr(page, "packaged_corpus", lambda: Corpus("0123abcd", rows))
    return page.render()


def test_programs_beyond_two_are_listed_with_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = {
        "known": ("*A smaller grain*: 250.", "*Two tiles*: 240."),
        "reductions": ("*B*: 1",),
    }
    monkeypatch.setattr(page, "_ATTEMPTS", attempts)
    text = text_of(
        monkeypatch,
        row("known", "products", 300),
        row("unknown", "products", 40),
        row("sum", "reductions", 20),
        row("near", "products", 150),
        row("part", "products", 900, lacks="a gradient"),
    )
    section = text.partition("## Programs beyond two")[2].partition("## All programs")[0]
    assert "- **known** (products): 3 on GC2.\n  - *A smaller grain*: 250.\n" in section
    assert "  - *Two tiles*: 240.\n" in section
    assert "- **unknown** (products): 0.4 on GC2. (no attempts recorded)\n" in section
    assert "- **Reductions**\n  - *B*: 1\n" in section
    assert "- **sum** (reductions): 0.2 on GC2. See reductions above.\n" in section
    assert "near" not in section
    assert "part" not in section


def test_without_such_programs_the_section_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(monkeypatch, row("near", "products", 150))
    assert "what was tried.\n\nNone.\n" in text


def test_every_program_is_listed_with_its_passes_and_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = text_of(
        monkeypatch,
        row("whole", "convolutions", 150, n_passes=3),
        row("part", "pooling", 50, lacks="the gradient of pooling", n_passes=2),
        row("none", "CTC loss", None, lacks="the CTC loss"),
    )
    assert "| whole | GC2 | 100 | 1.5 | 1 | 1 | three passes |" in text
    assert "| part | GC2 | 100 | 0.5 | 1 | 1 | two passes; lacks the gradient of pooling |" in text
    assert "| none | GC2 | 100 | – | – | – | lacks the CTC loss |" in text
    assert "Version of the table: 0123abcd." in text


def test_attempts_are_of_programs_and_kinds_that_exist() -> None:
    rows = packaged_corpus().rows
    assert set(page._ATTEMPTS) <= {one.name for one in rows} | {one.kind for one in rows}
