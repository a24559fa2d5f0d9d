"""The help explains every key and term and shows the fidelity statement of the command."""

from __future__ import annotations

import json
from typing import Any

from tilescope.engine.fidelity import packaged_corpus, packaged_rows
from tilescope.engine.fidelity.corpus_text import KIND_COLUMNS
from tilescope.engine.fidelity.statement import COLUMNS, Statement, statement
from tilescope.webapp.help import Fidelity, help_content


def _text(panel: Any) -> str:
    return json.dumps(panel.to_plotly_json(), default=lambda component: component.to_plotly_json())


def _fidelity(output: Statement) -> Fidelity:
    return Fidelity(columns=COLUMNS, corpus_columns=KIND_COLUMNS, **vars(output))


def test_the_statement_holds_every_figure_once_and_marks_misses() -> None:
    rows = packaged_rows()
    corpus = packaged_corpus()
    output = statement(rows, corpus)
    texts = (*output.counted, *output.shown, *output.further)
    assert len(texts) == len(rows)
    assert all(len(row) == len(COLUMNS) for row in texts)
    text = _text(help_content(_fidelity(output)))
    assert output.summary in text
    assert output.further_summary in text
    for sentence in output.not_modelled:
        for part in sentence.split("`"):
            assert json.dumps(part)[1:-1] in text
    assert "`" not in text
    assert corpus.version in text
    for score, cells in zip(corpus.scores, output.corpus, strict=True):
        assert cells[0].startswith(score.kind)
        for cell in cells:
            assert json.dumps(cell) in text
    for row in rows:
        assert json.dumps(row.what)[1:-1] in text
    assert text.count("is-miss") == sum(row.verdict == "miss" for row in rows)


def test_without_a_statement_the_help_names_the_command() -> None:
    text = _text(help_content(None))
    assert "tilescope doctor --fidelity" in text
    assert "Keys and gestures" in text
    assert "Always live" in text
