"""``tilescope system``: what it prints of traces, and its JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden.recipe import GOLDEN
from tests.libpvti.written import write_trace
from tests.tilescope.conftest import Outcome

from tilescope.analyser import host

Run = Callable[..., Outcome]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    records = [
        (0, "begin", "app", "epoch", 0),
        (1_000_000, "begin", "Poplar", "run", 0),
        (1_500_000, "mark", "app", "note", 0),
        (3_000_000, "end", "Poplar", "run", 0),
        (4_000_000, "end", "app", "epoch", 0),
        (2_000_000, "begin", "app", "load", 1),
        (4_000_000, "end", "app", "load", 1),
    ]
    return write_trace(tmp_path / "a.pvti", records)


def test_a_trace_is_shown_by_thread_channel_and_label(tilescope: Run, trace: Path) -> None:
    finished = tilescope("system", trace)
    assert (finished.code, finished.err) == (0, "")
    lines = [line.split() for line in finished.out.splitlines()]
    assert lines[0] == [str(trace)]
    assert "program.py, process 7 on unknown, began at 2001-09-09 01:46:40 UTC" in finished.out
    assert "4 events, 1 of them moments; 4 ms from first to last; 2 threads." in finished.out
    assert ["100", "thread", "0", "3", "4", "ms", "100.00", "%"] in lines
    assert ["101", "thread", "1", "1", "2", "ms", "50.00", "%"] in lines
    assert ["Poplar", "1", "1", "0", "2", "ms"] in lines
    assert ["app", "3", "2", "1", "4", "ms"] in lines
    (epoch,) = [line for line in lines if line[:2] == ["epoch", "app"]]
    assert " ".join(epoch[2:]) == "1 4 ms 2 ms 4 ms 4 ms 4 ms 4 ms 4 ms"
    assert ["note", "app", "1", *"–––––––"] in lines


def test_labels_are_chosen_by_channel_and_words(tilescope: Run, trace: Path) -> None:
    def labels(*arguments: str) -> list[str]:
        (answer,) = tilescope("system", trace, "--json", *arguments).json()["traces"]
        return [row["label"] for row in answer["labels"]]

    assert labels() == ["run", "epoch", "load", "note"]
    assert labels("--channel", "Poplar") == ["run"]
    assert labels("--search", "app no") == ["note"]
    refused = tilescope("system", trace, "--channel", "poplar")
    assert refused.code == 2
    assert "has no channel 'poplar'; it has app, Poplar." in refused.err


def test_json_has_the_figures_of_the_analyser(tilescope: Run, trace: Path) -> None:
    both = tilescope("system", trace, trace, "--json").json()["traces"]
    assert both[0] == both[1]
    answer = both[0]
    with host.open_trace(trace) as report:
        (first, _) = host.thread_figures(report)
        labels = host.label_figures(report)
    assert answer["state"]["state"] == "complete"
    assert (answer["pid"], answer["n_events"], answer["duration_ns"]) == (7, 4, 4_000_000)
    assert answer["threads"][0]["busy_ns"] == first.busy_ns
    for row, figures in zip(answer["labels"], labels, strict=True):
        assert row["total_ns"] == figures.total_ns
        assert row["p99_ns"] == figures.p99_ns
    assert sum(row["self_ns"] for row in answer["channels"]) == sum(f.self_ns for f in labels)


def test_other_files_are_refused_in_one_sentence(tilescope: Run, tmp_path: Path) -> None:
    for path, sentence in (
        (GOLDEN, "is of the kind profile; this takes the kind host trace"),
        (tmp_path / "missing.pvti", "does not exist"),
        (Path(__file__), "is not a report"),
    ):
        finished = tilescope("system", path)
        assert finished.code == 2
        assert finished.out == ""
        assert sentence in finished.err
        assert len(finished.err.splitlines()) == 1


def test_an_empty_trace_is_shown(tilescope: Run, tmp_path: Path) -> None:
    finished = tilescope("system", write_trace(tmp_path / "empty.pvti", []))
    assert finished.code == 0
    assert "0 events" in finished.out
