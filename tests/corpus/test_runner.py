"""The run of the corpus: bad rows, interruptions, and rows that moved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.corpus.__main__ import compile_rows, main, selected, write_table
from tests.corpus.fake_measure import misbehave, refuse
from tests.corpus.measure import Measured
from tests.corpus.results import Results, sources_digest
from tests.corpus.rows import Figures, Row, all_rows
from tests.corpus.table import corpus_row, moves, moves_text
from tests.corpus.workers import measure_all

from tilescope.engine.fidelity.corpus import CorpusRow, read_corpus


def row(name: str, cycles: int = 100, program: str = "product") -> Row:
    return Row(name, program, {}, "gc2", Figures(cycles, 1000, 10))


def built(name: str, cycles: int | None, memory: int = 1000, program: str = "product") -> CorpusRow:
    ours = None if cycles is None else Figures(cycles, memory, 10)
    return corpus_row(row(name, program=program), Measured(ours))


def test_a_bad_row_costs_its_own_result_only() -> None:
    names = ("crash", "hang", "sound", "exhaust", "fail", "last")
    results = {
        one.name: measured
        for one, measured in measure_all(
            [row(name) for name in names], measure_row=misbehave, patience_s=2.0
        )
    }
    assert {name: result.refused for name, result in results.items()} == {
        "crash": "ended the process with code 3",
        "hang": "took longer than 2 s",
        "sound": "",
        "exhaust": "compiling takes more than 10 GiB",
        "fail": "KeyError: 'tile'",
        "last": "",
    }
    assert results["last"].ours == Figures(200, 1000, 10)


def test_an_interrupted_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(name) for name in "abcd"]
    path = tmp_path / "build" / "corpus.jsonl"
    results, add = Results(path, "digest"), Results.add

    def interrupted(self: Results, key: str, measured: Measured) -> None:
        if len(self.by_key) == 2:
            with path.open("a") as stream:
                stream.write('{"row": "c@gc2", "ou')  # killed while it wrote
            raise KeyboardInterrupt
        add(self, key, measured)

    with monkeypatch.context() as patch:
        patch.setattr(Results, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compile_rows(rows, results, measure_row=misbehave)
    known = set(Results(path, "digest").by_key)
    assert len(known) == 2
    after = compile_rows(rows, Results(path, "digest"), measure_row=refuse)
    assert {one.key for one in after if not one.refused} == known
    assert len(after) == 4
    again = compile_rows(rows[:1], Results(path, "digest"), measure_row=refuse, again=True)
    assert again[0].refused == "refused here"
    assert set(Results(path, "digest").by_key) == {one.key for one in rows}


def test_results_of_other_sources_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    Results(path, "before").add("a@gc2", Measured(Figures(1, 2, 3), lacks="a part", seconds=1.5))
    assert Results(path, "before").by_key["a@gc2"] == Measured(Figures(1, 2, 3), "a part", "", 1.5)
    assert Results(path, "after").by_key == {}
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"digest": "after"}]


def test_the_digest_is_of_what_decides_the_figures(tmp_path: Path) -> None:
    programs = ("measure.py", "programs.py", "published.toml", "rows.py")
    names = ("engine/a.py", "engine/machine/gc2.toml", *(f"tests/corpus/{n}" for n in programs))
    others = ("engine/fidelity/corpus.json", "engine/fidelity/score.py", "tests/corpus/table.py")
    for name in (*names, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = sources_digest(tmp_path)
    for name in others:
        (tmp_path / name).write_text("2")
    assert sources_digest(tmp_path) == before
    digests = {before}
    for name in names:
        (tmp_path / name).write_text("2")
        digests.add(sources_digest(tmp_path))
    assert len(digests) == len(names) + 1


def test_rows_that_moved_are_told_by_kind_the_worst_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [
        built("still", 200), built("better", 200), built("worse", 110), built("lost", 100),
        built("won", None, program="gru"), built("heavier", 100),
    ]  # fmt: skip
    after = [
        built("still", 201), built("better", 105), built("worse", 150), built("lost", None),
        built("won", 90, program="gru"), built("heavier", 100, 1100), built("new", 500),
    ]  # fmt: skip
    table, listing = tmp_path / "corpus.json", tmp_path / "moves.txt"
    write_table(before, table, listing)
    assert capsys.readouterr().out == "No row moved by more than 1 %.\n"
    write_table(after, table, listing)
    told = (
        "5 rows moved by more than 1 %, simulated over published:\n"
        "products: 4\n"
        "  lost@gc2: cycles 1 → –, memory 1 → –\n"
        "  worse@gc2: cycles 1.1 → 1.5\n"
        "  heavier@gc2: memory 1 → 1.1\n"
        "  better@gc2: cycles 2 → 1.05\n"
        "recurrent layers: 1\n"
        "  won@gc2: cycles – → 0.9, memory – → 1\n"
    )
    assert capsys.readouterr().out == told
    assert listing.read_text() == told
    assert read_corpus(table.read_text()).rows == tuple(after)
    assert "  … 2 more\n" in moves_text(moves(before, after), most=2)


def test_patterns_select_rows_and_keep_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.corpus.__main__.RESULTS", tmp_path / "corpus.jsonl")
    monkeypatch.setattr("tests.corpus.__main__.TABLE", tmp_path / "corpus.json")
    main(["oct_*@gc2"])
    text = capsys.readouterr().out
    assert text.count("@gc2: lacks octave convolutions") == 20
    assert "@gc200" not in text
    assert not (tmp_path / "corpus.json").exists()
    with pytest.raises(SystemExit):
        main(["no-such-program"])
    assert "no row matches 'no-such-program'" in capsys.readouterr().err
    assert selected([]) == list(all_rows())
    assert {one.program for one in selected(["gru", "lstm_16"])} == {"gru", "lstm"}


def test_rows_are_of_kinds_that_users_know() -> None:
    rows = {one.key: corpus_row(one, Measured(None)) for one in all_rows()}
    assert rows["mobilenet_depthwise_3@gc2"].kind == "depthwise convolutions"
    assert rows["mobilenet_depthwise_3@gc2"].n_passes == 3
    assert rows["lstm_16_25_1024_1024_half_train@gc2"].n_passes == 3
    assert rows["lstm_16_25_1024_1024_half@gc2"].n_passes == 1
    plain = next(one for one in all_rows() if one.program == "convolution")
    assert corpus_row(plain, Measured(None)).kind == "convolutions"
    assert corpus_row(replace(plain, program="gru"), Measured(None)).kind == "recurrent layers"
