"""The fidelity table: its score, and the packaged table matches the programs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.fidelity.builders import BUILDERS, NETWORKS, PODS
from tests.fidelity.comparison import compare, rows_as_json
from tests.fidelity.networks import first_resnet_rate
from tests.fidelity.reference import all_references

from tilescope.engine.fidelity import Row, packaged_rows, score
from tilescope.engine.fidelity.score import FURTHER_TOLERANCE
from tilescope.engine.fidelity.statement import (
    as_error,
    as_tolerance,
    as_verdict,
    further_sentence,
)

COUNTED = {f"C{n}" for n in (*range(1, 10), 11, 13, 14, 15, 24)}


@pytest.fixture(scope="module")
def computed() -> list[Row]:
    return compare(BUILDERS, packaged_rows())


@pytest.mark.slow
def test_the_packaged_table_is_what_the_programs_cost_now(computed: list[Row]) -> None:
    packaged = packaged_rows()
    blank = [replace(row, ours=None, error=None) for row in computed]
    assert blank == [replace(row, ours=None, error=None) for row in packaged], "run `make fidelity`"
    for now, then in zip(computed, packaged, strict=True):
        assert now.ours == (None if then.ours is None else pytest.approx(then.ours)), now


def test_a_network_costs_what_the_table_says() -> None:
    """One of the rows that `make networks` computes; the others take minutes each."""
    (packaged,) = (r for r in packaged_rows() if (r.id, r.figure) == ("C17", "half, batch 1"))
    assert first_resnet_rate()["half, batch 1"] == pytest.approx(packaged.ours)


def test_fourteen_references_count() -> None:
    assert {name for name, reference in all_references().items() if reference.is_counted} == COUNTED
    further = [name for name, reference in all_references().items() if reference.is_further]
    assert list(all_references()) == [*(f"C{n}" for n in range(1, 25)), *further]
    assert further == [f"F{n}" for n in range(1, len(further) + 1)]


def test_a_figure_used_in_a_law_is_not_evidence() -> None:
    """The table shows and marks it, but the sentence about agreement excludes it."""
    results = [row for row in packaged_rows() if row.gave_law]
    assert {row.id for row in results} == {"F2", "F7", "F27"}
    assert all(as_verdict(row) == f"{row.verdict}, used in a law" for row in results)
    rest = [row for row in packaged_rows() if row.is_further and row.ours and not row.gave_law]
    sentence = further_sentence(packaged_rows())
    assert sentence.startswith(f"Of {len(rest)} figures")
    assert f"{len(results)} more contributed terms to laws" in sentence
    assert further_sentence(rest).endswith("0 more contributed terms to laws and prove nothing.")


def test_further_figures_never_count() -> None:
    further = [reference for reference in all_references().values() if reference.is_further]
    assert len(further) >= 5
    assert not any(figure.counted for reference in further for figure in reference.figures)
    assert {f.tolerance for reference in further for f in reference.figures} == {FURTHER_TOLERANCE}


def test_every_figure_is_built_or_states_what_it_needs() -> None:
    for name, reference in all_references().items():
        is_open = all(figure.needs for figure in reference.figures)
        assert any(name in of for of in (BUILDERS, NETWORKS, PODS)) != is_open, name


def test_laws_confirmed_on_silicon_stay_within_their_tolerance(computed: list[Row]) -> None:
    verdicts = {
        name: {row.verdict for row in computed if row.id == name and row.counted}
        for name in ("C1", "C2", "C3", "C5", "C6", "C8", "C9", "C11", "C15", "C24")
    }
    assert verdicts == {name: {"within"} for name in verdicts}


def row(reference: str, published: float, ours: float | None, verdict: str) -> Row:
    first = packaged_rows()[0]
    return replace(
        first,
        id=reference,
        published=published,
        ours=ours,
        verdict=verdict,
        tolerance_kind="relative",
    )


def test_a_reference_counts_once_and_is_within_when_all_its_figures_are() -> None:
    rows = [
        row("A", 100, 50, "within"),
        row("A", 100, 200, "within"),
        row("B", 100, 100, "within"),
        row("B", 100, 100, "miss"),
        row("C", 100, 100, "within"),
        row("C", 100, None, "open"),
        replace(row("D", 100, 1, "miss"), counted=False),
    ]
    actual = score(rows)
    assert (actual.n_counted, actual.n_built, actual.n_within) == (3, 2, 1)
    # Half and twice are both a ratio of 2; the other three figures are exact.
    assert actual.mean_ratio == pytest.approx(2 ** (2 / 5))


def test_a_figure_on_the_edge_of_its_tolerance_is_within_and_past_it_a_miss() -> None:
    figures = {f.name: f.published for f in all_references()["C3"].figures}
    for factor, verdict in ((1.0999, "within"), (0.9001, "within"), (1.11, "miss"), (0.89, "miss")):
        ours = {name: published * factor for name, published in figures.items()}
        builders: dict[str, Any] = dict.fromkeys(BUILDERS, _Anything)
        builders["C3"] = partial(dict, ours)
        rows = [r for r in compare(builders, packaged_rows()) if r.id == "C3"]
        assert {r.verdict for r in rows} == {verdict}
        assert {as_error(r) for r in rows} == {f"{100 * (factor - 1):+.1f} %"}


class _Anything(dict):  # type: ignore[type-arg]
    def __missing__(self, key: str) -> float:
        return 1.0


def test_tolerances_are_shown_by_kind() -> None:
    rows = {row.figure: row for row in packaged_rows() if row.id == "C13"}
    assert as_tolerance(rows["total"]) == "15 %"
    assert as_tolerance(rows["tile balance"]) == "5 points"
    assert as_error(rows["tile balance"]).endswith(" points")


def test_the_file_has_the_score_and_a_row_per_figure() -> None:
    answer = json.loads(rows_as_json(packaged_rows()))
    assert len(answer["rows"]) == sum(len(t.figures) for t in all_references().values())
    assert {"id", "published", "ours", "error", "tolerance", "verdict", "counted"} <= set(
        answer["rows"][0]
    )
    assert answer["score"]["n_counted"] == 14
