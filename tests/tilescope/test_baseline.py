"""``tilescope baseline``: a directory and a git branch, saves at once, and what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.analyser.small_report import Shape, write_small_report

from tilescope.baselines import StoreNotUsable, open_store
from tilescope.baselines.key import BaselineKey

Run = Callable[..., Any]
KEY = "small"
ROOT = Path(__file__).parents[2]


def git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a file, an uncommitted change and a staged one; work there."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "a.txt").write_text("two\n")
    (folder / "b.txt").write_text("staged\n")
    git(folder, "add", "b.txt")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(params=["directory", "git"])
def store(request: pytest.FixtureRequest, repository: Path) -> str:
    return "git:baselines" if request.param == "git" else str(repository.parent / "store")


def test_save_list_get(
    tilescope: Run, reports_directory: Path, repository: Path, store: str
) -> None:
    before = git(repository, "status", "--porcelain")
    saved = tilescope("baseline", "save", reports_directory / "baseline", "--store", store)
    assert (saved.code, saved.out, saved.err) == (0, f"Saved {KEY}\n", "")
    listed = tilescope("baseline", "list", "--store", store, "--json").json()
    original = (reports_directory / "baseline" / "profile.pop").read_bytes()
    assert listed == {"baselines": [{"model": "small", "bytes": len(original)}]}
    assert "small" in tilescope("baseline", "list", "--store", store).out
    target = repository.parent / "got"
    got = tilescope(
        "baseline", "get", reports_directory / "slower", "--store", store, "--output", target
    )
    assert (got.code, got.err) == (0, "")
    assert (target / "profile.pop").read_bytes() == original
    assert git(repository, "status", "--porcelain") == before
    assert tilescope("diff", target, reports_directory / "same").code == 0


def test_a_later_save_replaces_the_baseline(
    tilescope: Run, reports_directory: Path, tmp_path: Path, store: str
) -> None:
    for name in ("baseline", "slower", "slower"):
        assert tilescope("baseline", "save", reports_directory / name, "--store", store).code == 0
    target = tmp_path / "got"
    tilescope("baseline", "get", reports_directory / "same", "--store", store, "--output", target)
    newest = (reports_directory / "slower" / "profile.pop").read_bytes()
    assert (target / "profile.pop").read_bytes() == newest


def test_saving_the_same_twice_makes_one_commit(
    tilescope: Run, reports_directory: Path, repository: Path
) -> None:
    for _ in range(2):
        tilescope("baseline", "save", reports_directory / "baseline", "--store", "git:baselines")
    assert git(repository, "rev-list", "--count", "baselines").strip() == "1"
    assert git(repository, "rev-list", "--max-parents=0", "baselines", "main").count("\n") == 2


def test_a_baseline_that_is_gone_is_one_sentence(
    tilescope: Run, reports_directory: Path, tmp_path: Path, store: str
) -> None:
    command = ("baseline", "get", reports_directory / "baseline", "--store", store,
               "--output", tmp_path / "got")  # fmt: skip
    finished = tilescope(*command)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith(f"tilescope: no baseline for {KEY} ")
    assert len(finished.err.splitlines()) == 1
    allowed = tilescope(*command, "--allow-missing")
    assert (allowed.code, allowed.err) == (0, "")
    assert allowed.out.startswith(f"No baseline for {KEY} ")
    assert not (tmp_path / "got").exists()


def test_what_is_under_test_is_not_of_the_key(tilescope: Run, tmp_path: Path) -> None:
    shapes = {
        "default": Shape(),
        "options": Shape(options={"autoReport.all": "true", "target.x": "1"}),
        "machine": Shape(target_name="other/../machine"),
    }
    for name, shape in shapes.items():
        write_small_report(tmp_path / name, shape)
        text = tilescope("baseline", "save", tmp_path / name, "--store", tmp_path / "store").out
        assert text == f"Saved {KEY}\n"


def test_models_of_one_file_name_have_baselines_of_their_own(
    tilescope: Run, tmp_path: Path, store: str
) -> None:
    paths = (
        "vision/m.onnx",
        "audio/m.onnx",
        "m.onnx",
        "b.pop/baseline.pop/m.onnx",
        "/tmp/../m.onnx",
    )
    for path in paths:
        write_small_report(tmp_path / "report", Shape(model_path=path))
        assert tilescope("baseline", "save", tmp_path / "report", "--store", store).code == 0
        shutil.rmtree(tmp_path / "report")
    assert len(open_store(store).sizes()) == len(paths)


@pytest.mark.parametrize("name", ["../../x", "a//b", "b/../../c", ".", "-x", "é", "x" * 300, "a b"])
def test_any_name_stays_in_the_store(
    tilescope: Run, reports_directory: Path, tmp_path: Path, name: str
) -> None:
    store, report = tmp_path / "store", reports_directory / "baseline"
    saved = tilescope("baseline", "save", report, "--store", store, f"--name={name}")
    assert saved.code == 0, saved.err
    (path,) = tmp_path.rglob("*.pop")
    assert path.is_relative_to(store)
    command = ("baseline", "get", report, "--store", store, "--output", tmp_path / "got")
    assert tilescope(*command).code == 2
    assert tilescope(*command, f"--name={name}").code == 0


def test_an_empty_name_and_a_report_without_a_model_are_refused(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    report = reports_directory / "baseline"
    for name in ("", "/"):
        finished = tilescope("baseline", "save", report, "--store", tmp_path, "--name", name)
        assert (finished.code, finished.out) == (2, "")
        assert "the name is empty; name it with --name" in finished.err


def test_a_missing_baseline_names_those_that_are_stored(
    tilescope: Run, reports_directory: Path, store: str
) -> None:
    report = reports_directory / "baseline"
    for number in range(7):
        tilescope("baseline", "save", report, "--store", store, "--name", f"m{number}")
    finished = tilescope("baseline", "get", report, "--store", store)
    assert "which holds m0, m1, m2, m3, m4 and 2 more; after a renaming" in finished.err


def test_baselines_of_the_old_layout_are_told(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    old = tmp_path / "store/small/gc200-1x1472-hardware/default/profile.pop"
    old.parent.mkdir(parents=True)
    shutil.copy(reports_directory / "baseline/profile.pop", old)
    finished = tilescope(
        "baseline", "get", reports_directory / "baseline", "--store", tmp_path / "store"
    )
    assert "and 1 stored by machine and options before 0.1.0" in finished.err


def test_an_incomplete_report_is_refused(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    finished = tilescope(
        "baseline", "save", reports_directory / "incomplete", "--store", tmp_path / "store"
    )
    assert (finished.code, finished.out) == (2, "")
    assert "ended early" in finished.err
    assert "run the program again" in finished.err
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("git:main", "branch main is checked out"),
        ("git:other", "branch other holds other files"),
        ("git:-x", "is not a valid name of a branch"),
        ("git:a..b", "is not a valid name of a branch"),
        ("git:", "is not a valid name of a branch"),
    ],
)
def test_a_branch_that_is_not_for_baselines(
    tilescope: Run, reports_directory: Path, repository: Path, store: str, said: str
) -> None:
    git(repository, "branch", "other")
    tips = git(repository, "for-each-ref")
    finished = tilescope("baseline", "save", reports_directory / "baseline", "--store", store)
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert said in finished.err
    assert git(repository, "for-each-ref") == tips


def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(StoreNotUsable, match="is not in a git repository"):
        open_store("git:baselines")
    with pytest.raises(StoreNotUsable, match="--remote needs a store such as git:baselines"):
        open_store("folder", "origin")


_SAVER = """
import sys
from pathlib import Path
from tilescope.baselines import open_store
from tilescope.baselines.key import BaselineKey
store, remote, report, number = sys.argv[1:]
for turn in range(3):
    key = BaselineKey(f"model{number}/{turn}")
    open_store(store, remote or None).save(key, Path(report))
"""


def save_at_once(folders: list[Path], store: str, remote: str, report: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "compat")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVER, store, remote, str(report), str(number)],
            cwd=folder,
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, folder in enumerate(folders)
    ]
    for process in running:
        _, text = process.communicate(timeout=300)
        assert process.returncode == 0, text


def test_saves_at_once_lose_nothing(reports_directory: Path, store: str, repository: Path) -> None:
    report = reports_directory / "baseline" / "profile.pop"
    save_at_once([repository] * 4, store, "", report)
    assert len(open_store(store).sizes()) == 12


def test_saves_at_once_to_a_remote_lose_nothing(
    tilescope: Run, reports_directory: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = reports_directory / "baseline" / "profile.pop"
    server = repository.parent / "server.git"
    git(repository.parent, "init", "-q", "--bare", str(server))
    git(repository, "push", "-q", str(server), "main")
    clones = [repository.parent / f"clone{number}" for number in range(3)]
    for clone in clones:
        git(repository.parent, "clone", "-q", "--depth=1", "--branch=main", f"file://{server}",
            str(clone))  # fmt: skip
    save_at_once(clones, "git:ci/baselines", "origin", report)
    monkeypatch.chdir(clones[0])
    sizes = open_store("git:ci/baselines", "origin").sizes()
    assert len(sizes) == 9
    assert BaselineKey("model2/2") in sizes
    gone = tilescope("baseline", "get", report, "--store", "git:ci/baselines", "--remote", "origin")
    assert f"no baseline for {KEY} in branch origin/ci/baselines, which holds model0/0," in gone.err
    nowhere = tilescope(
        "baseline", "save", report, "--store", "git:ci/baselines", "--remote", "nowhere"
    )
    assert (nowhere.code, len(nowhere.err.splitlines())) == (2, 1)


def test_the_store_of_the_configuration(
    tilescope: Run, reports_directory: Path, repository: Path
) -> None:
    (repository / "tilescope.toml").write_text('[baseline]\nstore = "git:kept"\n')
    assert tilescope("baseline", "save", reports_directory / "baseline").code == 0
    assert git(repository, "ls-tree", "-r", "--name-only", "kept").splitlines() == [
        f"{KEY}/baseline.pop",
        "tilescope-baselines.txt",
    ]
