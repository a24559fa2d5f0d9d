"""The packaged corpus: what its scores are, and that its version is that of its rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib import resources

import pytest
from tests.corpus.table import KINDS

from tilescope.engine.fidelity import packaged_corpus, packaged_version
from tilescope.engine.fidelity.corpus import (
    CorpusRow,
    Figures,
    corpus_as_json,
    corpus_version,
    kind_scores,
    read_corpus,
)
from tilescope.engine.fidelity.corpus_text import as_ratio, as_spread, corpus_texts, far_rows


def row(name: str, cycles: int | None, *, lacks: str = "", refused: str = "") -> CorpusRow:
    ours = None if cycles is None else Figures(cycles, 1000, 50)
    return CorpusRow(name, "products", "gc2", 3, Figures(100, 2000, 100), ours, lacks, refused)


ROWS = (
    row("double", 200),
    row("half", 50),
    row("near", 110),
    row("part", 10_000, lacks="a gradient"),
    row("none", None, lacks="the call"),
    row("failed", None, refused="too large"),
)


def test_scores_are_of_complete_rows() -> None:
    (score,) = kind_scores(ROWS)
    assert (score.n_rows, score.n_built, score.n_complete, score.n_passes) == (6, 4, 3, 3)
    assert score.cycles == pytest.approx((2 * 2 * 1.1) ** (1 / 3), abs=1e-4)
    assert score.bias == pytest.approx((2 * 0.5 * 1.1) ** (1 / 3), abs=1e-4)
    assert (score.memory, score.fullest) == (2.0, 2.0)
    assert (score.worst, score.worst_ratio) == ("double", 2.0)
    assert score.missing == ("a gradient", "the call", "1 refused")


def test_a_kind_without_complete_rows_has_no_means() -> None:
    (score,) = kind_scores(ROWS[3:])
    assert (score.cycles, score.bias, score.memory, score.worst_ratio) == (None,) * 4
    (texts,) = corpus_texts([score])
    assert texts[0] == "products, three passes"
    assert texts[5:10] == ("–",) * 5


def test_a_table_reads_as_it_was_written() -> None:
    text = corpus_as_json(ROWS)
    assert read_corpus(text).rows == ROWS
    assert read_corpus(text).version == corpus_version(ROWS)
    (kind,) = json.loads(text)["kinds"]
    assert kind["n_complete"] == 3


def test_the_version_is_that_of_the_figures_whatever_their_order() -> None:
    version = corpus_version(ROWS)
    assert len(version) == 8
    assert int(version, 16) >= 0
    assert corpus_version(ROWS[::-1]) == version
    changed = replace(ROWS[0], ours=Figures(201, 1000, 50))
    assert corpus_version((changed, *ROWS[1:])) != version
    assert corpus_version(ROWS[1:]) != version


def test_the_packaged_table_is_whole() -> None:
    corpus = packaged_corpus()
    assert packaged_version() == corpus.version == corpus_version(corpus.rows)
    assert len(corpus.rows) == 555
    assert {one.kind for one in corpus.rows} == {*KINDS.values(), "depthwise convolutions"}
    path = resources.files("tilescope.engine.fidelity") / "corpus.json"
    assert path.read_text(encoding="utf-8") == corpus_as_json(corpus.rows)
    for score in corpus.scores:
        assert score.n_complete <= score.n_built <= score.n_rows
        assert (score.n_complete == score.n_rows) == (not score.missing)


@pytest.mark.parametrize(
    ("mean", "text"), [(1.0, "±0 %"), (1.052, "±5 %"), (1.99, "±99 %"), (2.71, "factor 2.7")]
)
def test_an_expected_error_is_a_percentage_or_a_factor(mean: float, text: str) -> None:
    assert as_spread(mean) == text


def test_ratios_have_three_digits() -> None:
    assert [as_ratio(ratio) for ratio in (0.8251, 1.206, 12.34, 1214.6, None)] == [
        "0.825", "1.21", "12.3", "1,215", "–",
    ]  # fmt: skip


def test_rows_beyond_a_factor_are_complete_and_the_farthest_first() -> None:
    rows = (*ROWS, row("far", 20), row("fast", 49))
    assert [one.name for one in far_rows(rows)] == ["far", "fast"]
    assert math.isclose(rows[-2].ratio("cycles") or 0.0, 0.2)
