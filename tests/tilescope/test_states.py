"""The state of a report is the same for every reader, however its run ended."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from tests.tilescope.conftest import Outcome
from tests.tilescope.endings import kill, running_program, write_ending

import pva
from tilescope.reports import State, report_state
from tilescope.webapp.api import live
from tilescope.webapp.home import Overviews, overview_cells
from tilescope.webapp.library import Library

Run = Callable[..., Outcome]

ENDINGS = ("closed", "not closed", "exception", "interrupted", "killed", "damaged")
STATES = {
    "closed": State.COMPLETE,
    "not closed": State.COMPLETE,
    "exception": State.ENDED_EARLY,
    "interrupted": State.ENDED_EARLY,
    "killed": State.ENDED_EARLY,
    "damaged": State.DAMAGED,
    "running": State.RUNNING,
}
#: How the sentence on a state begins.
SENTENCES = {
    State.COMPLETE: "",
    State.ENDED_EARLY: "The run ended early: its engine was killed, interrupted or closed by an",
    State.DAMAGED: "The report is damaged: A chunk of array ",
    State.RUNNING: "The engine is still running; its last sign of life was at 20",
}
#: What a gate says of the file.
REFUSALS = {
    State.ENDED_EARLY: r"\.pop ended early; its engine last wrote at .*: run the program again",
    State.DAMAGED: r"A chunk of array .*/profile\.pop is damaged",
    State.RUNNING: r"\.pop is still being written; .*: wait until the engine finishes",
}
HEADS = (
    "How the run ended",
    "`report_state`",
    "Home page",
    "Notice of a page",
    "`/api/reports/…/state`",
    "`tilescope summary`",
    "`tilescope diff`",
    "Gate",
    "`pva`",
)
LABELS = {
    "closed": "Engine closed",
    "not closed": "Never closed, normal exit",
    "exception": "Exception in the program",
    "interrupted": "Ctrl-C",
    "killed": "`kill -9`",
    "damaged": "Closed, then one chunk changed",
    "running": "Still running",
}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Return the report of every ending, and one of a program that runs meanwhile."""
    root = tmp_path_factory.mktemp("endings")
    paths = {name: write_ending(root / name.replace(" ", "-"), name) for name in ENDINGS}
    with running_program(root / "running"):
        (paths["running"],) = (root / "running").glob("*.pop")
        yield paths


@pytest.fixture(scope="module")
def library(endings: dict[str, Path]) -> Iterator[Library]:
    """Return the library that serves all of them."""
    library = Library([endings["closed"].parents[1]])
    yield library
    library.close()


def _notice_and_word(library: Library, path: Path) -> tuple[str, str]:
    """Return the notice that a page shows, and the state that the endpoint returns."""
    server = FastAPI()
    server.include_router(live.routes(library))
    (entry,) = (entry for entry in library.found() if entry.path == path.resolve())
    with library.opened(entry.report_id):
        pass
    while library.states.is_pending(entry):
        pass
    answer = TestClient(server).get(f"/reports/{entry.report_id}/state").json()
    assert answer["is_running"] == (answer["state"] == "running")
    return answer["sentence"], answer["state"]


def _home_cell(library: Library, path: Path) -> str:
    (entry,) = (entry for entry in library.found() if entry.path == path.resolve())
    return overview_cells(entry, Overviews(library.states))[-1].text


def _pva_warning(path: Path) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pva.openReport(path):
            pass
    assert all(warning.category is pva.ReportStateWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    (text,) = [str(warning.message) for warning in caught] or [""]
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", STATES)
def test_home_pages_and_their_endpoint(
    endings: dict[str, Path], library: Library, name: str
) -> None:
    state, path = STATES[name], endings[name]
    cell = _home_cell(library, path)
    assert cell == ("fits" if state is State.COMPLETE else f"{state}, fits")
    notice, word = _notice_and_word(library, path)
    assert word == state
    assert notice.startswith(SENTENCES[state])
    assert bool(notice) == bool(SENTENCES[state])
    assert str(path.parent) not in notice


@pytest.mark.parametrize("name", STATES)
def test_summary_and_diff(tilescope: Run, endings: dict[str, Path], name: str) -> None:
    state, path, sentence = STATES[name], endings[name], SENTENCES[STATES[name]]
    finished = tilescope("summary", path)
    assert finished.code == 0
    lines = finished.err.splitlines()
    assert len(lines) == bool(sentence)
    assert all(line.startswith(f"tilescope: {path}: {sentence}") for line in lines)
    assert finished.out.splitlines()[1].startswith(sentence)
    answer = json.loads(tilescope("summary", path, "--json").out)
    assert (answer["is_complete"], answer["state"]["state"]) == (state is State.COMPLETE, state)
    assert answer["state"]["sentence"].startswith(sentence)
    finished = tilescope("diff", _baseline(endings, name), path)
    assert finished.code == 0
    assert (f"Candidate: {sentence}" in finished.out) == bool(sentence)


@pytest.mark.parametrize("name", STATES)
def test_gates_baselines_and_exports(
    tilescope: Run, endings: dict[str, Path], name: str, tmp_path: Path
) -> None:
    state, path = STATES[name], endings[name]
    peer = endings["not closed"]
    commands = (
        ("diff", peer, path, "--fail-on", "memory.total:+1%"),
        ("diff", path, peer, "--warn-on", "memory.total:+1%"),
        ("baseline", "save", path, "--store", tmp_path / "store", "--name", "copy"),
        ("export", path, "--format", "bencher", "--name", "copy"),
    )
    for command in commands:
        finished = tilescope(*command)
        if state is State.COMPLETE:
            assert (finished.code, finished.err) == (0, ""), command
            continue
        assert (finished.code, finished.out) == (2, ""), command
        assert finished.err.count("\n") == 1, finished.err
        assert re.search(REFUSALS[state], finished.err), finished.err


@pytest.mark.parametrize("name", STATES)
def test_pva_and_the_function_that_decides(endings: dict[str, Path], name: str) -> None:
    state, path = STATES[name], endings[name]
    answer = report_state(path, verify=True)
    assert answer is not None
    assert answer.state is state
    assert answer.sentence.startswith(SENTENCES[state])
    warning = _pva_warning(path)
    assert warning.startswith(SENTENCES[state])
    assert bool(warning) == bool(SENTENCES[state])


@pytest.mark.parametrize(
    "name",
    [
        "summary",
        "memory",
        "trace",
        "insights",
        "ops",
        "variables",
        "programs",
        "liveness",
        "exchange",
        "tile",
        "ledger",
        "fit",
    ],
)
@pytest.mark.parametrize("ending", ["killed", "damaged"])
def test_every_command_says_the_state(
    tilescope: Run, endings: dict[str, Path], name: str, ending: str
) -> None:
    path = endings[ending]
    arguments = [name, path, *([0] if name == "tile" else [])]
    finished = tilescope(*arguments)
    if finished.code == 0:
        sentence = SENTENCES[STATES[ending]]
        assert f"tilescope: {path}: {sentence}" in finished.err
    else:
        assert finished.code == 2
        assert str(path) in finished.err
    assert "Traceback" not in finished.err
    finished = tilescope(*arguments, "--json")
    if finished.code == 0:
        assert finished.json()["state"]["state"] == STATES[ending]
        assert finished.err == ""


def test_a_folder_with_a_newer_run(
    tilescope: Run, endings: dict[str, Path], tmp_path: Path
) -> None:
    directory = tmp_path / "report"
    complete = write_ending(directory, "closed")
    with running_program(directory) as process:
        (newer,) = directory.glob("profile_*.pop")
        finished = tilescope("summary", directory)
        sentence = f"A newer run is in {newer.name}. The engine is still running"
        assert finished.code == 0
        assert f"tilescope: {complete}: {sentence}" in finished.err
        assert sentence in finished.out
        answer = tilescope("memory", directory, "--json").json()
        assert (answer["is_complete"], answer["newer_run"]["state"]) == (True, "running")
        assert answer["newer_run"]["path"] == str(newer)
        assert f"Candidate: {sentence}" in tilescope("diff", endings["closed"], directory).out
        assert sentence in _pva_warning(directory)
        gate = ("diff", endings["closed"], directory, "--fail-on", "memory.total:+1%")
        finished = tilescope(*gate)
        assert (finished.code, finished.out) == (2, "")
        assert newer.name in finished.err
        assert "wait until the engine finishes" in finished.err
        kill(process)
    finished = tilescope(*gate)
    assert finished.code == 2
    assert "ended early" in finished.err
    assert "run the program again" in finished.err
    # The file itself is meant whatever lies beside it.
    assert tilescope(*gate[:2], complete, *gate[3:]).code == 0
    assert tilescope("summary", complete).err == ""


def test_a_running_report_that_dies_is_said_to_have_ended_early(tmp_path: Path) -> None:
    directory = tmp_path / "report"
    library = Library([directory])
    with running_program(directory) as process:
        (path,) = directory.glob("*.pop")
        assert _home_cell(library, path) == "running, fits"
        kill(process)
        assert _notice_and_word(library, path)[1] == "ended early"
        assert _home_cell(library, path) == "ended early, fits"
    library.close()


def test_a_report_is_not_called_identical_to_a_damaged_one(
    tilescope: Run, endings: dict[str, Path]
) -> None:
    finished = tilescope("diff", endings["closed"], endings["damaged"])
    assert (finished.code, finished.out) == (2, "")
    assert "is damaged" in finished.err


def test_verification_of_any_size_is_a_matter_of_an_option(
    tilescope: Run, endings: dict[str, Path]
) -> None:
    finished = tilescope("summary", endings["closed"], "--verify")
    assert finished.code == 0
    assert "All rows and chunks match their digests." in finished.out
    finished = tilescope("summary", endings["damaged"], "--verify")
    assert (finished.code, finished.out) == (2, "")
    assert "is damaged" in finished.err


def _baseline(endings: dict[str, Path], name: str) -> Path:
    """Return a baseline whose digests differ: those of equal ones are verified, which is fatal."""
    return endings["exception" if name == "damaged" else "closed"]


def _row(library: Library, name: str, endings: dict[str, Path], run: Run) -> list[str]:
    """Return what every reader says, without its details."""
    path = endings[name]
    state = report_state(path, verify=True)
    assert state is not None
    notice, word = _notice_and_word(library, path)
    gate = run("diff", endings["closed"], path, "--fail-on", "memory.total:+1%")
    texts = [
        str(state.state),
        _home_cell(library, path),
        notice,
        word,
        run("summary", path).err.removeprefix(f"tilescope: {path}: "),
        next(
            (line for line in run("diff", _baseline(endings, name), path).out.splitlines()
             if line.startswith("Candidate: ")),
            "",
        ).removeprefix("Candidate: "),
        f"exit {gate.code}",
        _pva_warning(path),
    ]  # fmt: skip
    return [LABELS[name], *(re.split(r"[:;.]", text)[0].strip() or "–" for text in texts)]


def test_the_documentation_shows_the_table(
    tilescope: Run, endings: dict[str, Path], library: Library
) -> None:
    rows = [_row(library, name, endings, tilescope) for name in STATES]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADS, ["---"] * len(HEADS), *rows))
    page = (ROOT / "docs/explanation/report-format.md").read_text(encoding="utf-8")
    assert table in page, table
