"""Values that others may have written reach git as values: no option, program or transport."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilescope.baselines import StoreNotUsable, open_store
from tilescope.baselines.git_branch import GitBranchStore, is_race

Run = Callable[..., Any]

#: Each would make the file ``ran`` as git or a shell takes it as an option or a program.
REMOTES = [
    "--upload-pack=touch ran; true",
    "--upload-pack=touch ran",
    "--receive-pack=touch ran",
    "-utouch ran",
    "--exec=touch ran",
    "ext::sh -c touch% ran",
    "ext::touch ran",
    "fd::17",
    "EXT::touch ran",
    "transport-helper::x",
    "https::touch ran",
    "ssh://-oProxyCommand=touch%20ran/x",
    "ssh://user@-oProxyCommand=touch/x",
    "-oProxyCommand=touch:x",
    "user@-oProxyCommand=touch:x",
    "host:-oProxyCommand=touch",
    "ftp://host/x",
    "rsync://host/x",
    "HTTPS://host/x",
    "origin\n--upload-pack=touch ran",
    "origin\0",
    " origin",
    "$(touch ran)",
    "`touch ran`",
    "origin; touch ran",
    "nowhere",
    ".",
    "x" * 5_000,
    "x" * 150_000,
]


def name_of(text: str) -> str:
    """Return the name of a case."""
    return f"{text[:40]!r} {len(text)}"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a remote; work there."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(tmp_path, "init", "-q", "--bare", "server.git")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    git(folder, "remote", "add", "origin", str(tmp_path / "server.git"))
    monkeypatch.chdir(folder)
    return folder


def quoted(text: str) -> str:
    return '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"'


def configure(folder: Path, **values: str) -> None:
    lines = [f"{key} = {quoted(value)}" for key, value in values.items()]
    (folder / "tilescope.toml").write_text("\n".join(["[baseline]", *lines]))


@pytest.mark.parametrize("remote", REMOTES, ids=name_of)
@pytest.mark.parametrize("command", ["list", "save", "get"])
def test_a_remote_of_the_configuration_runs_nothing(
    tilescope: Run, reports_directory: Path, repository: Path, remote: str, command: str
) -> None:
    configure(repository, store="git:b", remote=remote)
    report = () if command == "list" else (reports_directory / "baseline",)
    finished = tilescope("baseline", command, *report)
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert "is not a valid remote; expected the name of a remote" in finished.err
    assert not list(repository.rglob("ran"))


@pytest.mark.parametrize("remote", REMOTES[:-1], ids=name_of)
def test_a_remote_of_the_command_line_runs_nothing(
    tilescope: Run, repository: Path, remote: str
) -> None:
    finished = tilescope("baseline", "list", "--store", "git:b", f"--remote={remote}")
    if remote == ".":
        assert finished.code == 0  # a directory, which the user names
    else:
        assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
        assert "is not a valid remote" in finished.err or "\0" in remote
    assert not list(repository.rglob("ran"))


@pytest.mark.parametrize(
    "remote",
    [
        "https://host.example/a/b.git",
        "https://user:token@host.example:8443/a/b.git",
        "ssh://git@host.example/~/b.git",
        "git@host.example:a/b.git",
        "host:b",
        "git://[::1]/b",
        "origin",
    ],
)
def test_a_remote_on_another_computer_is_accepted(repository: Path, remote: str) -> None:
    configure(repository, store="git:b", remote=remote)
    store = open_store("git:b", remote, is_from_file=True)
    assert isinstance(store, GitBranchStore)
    assert store.remote == remote


def planted_repository(folder: Path) -> Path:
    """Return a bare repository whose hooks and configuration run programs."""
    git(folder, "init", "-q", "--bare", "planted")
    ran = folder / "ran"
    for hook in ("pre-receive", "update", "post-receive", "reference-transaction"):
        path = folder / "planted" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
        path.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "remote.origin.uploadpack"):
        git(folder / "planted", "config", key, f"touch '{ran}'; true")
    git(folder / "planted", "config", "remote.origin.url", f"ext::touch {ran}")
    return folder / "planted"


@pytest.mark.parametrize("form", ["planted", "./planted", "{}/planted", "file://{}/planted"])
def test_a_file_names_no_directory_as_remote(
    tilescope: Run, reports_directory: Path, repository: Path, form: str
) -> None:
    """A checkout may hold a bare repository, with hooks that a push would run."""
    planted_repository(repository)
    configure(repository, store="git:b", remote=form.format(repository))
    finished = tilescope("baseline", "save", reports_directory / "baseline")
    assert (finished.code, finished.out) == (2, "")
    assert "is not a valid remote" in finished.err
    assert not (repository / "ran").exists()


def test_a_bare_repository_in_a_checkout_is_not_used(
    tilescope: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted_repository(repository))
    finished = tilescope("baseline", "list", "--store", "git:b", "--remote", "origin")
    assert (finished.code, finished.out) == (2, "")
    assert "is not in a git repository" in finished.err
    assert not (repository / "ran").exists()


@pytest.mark.parametrize("key", ["url", "vcs"])
def test_a_transport_that_runs_a_program_is_refused_by_git_too(
    tilescope: Run, repository: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The user's own configuration may allow it, or name it."""
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file:https")
    git(repository, "config", "protocol.allow", "always")
    git(repository, "config", f"remote.origin.{key}", "ext::touch ran" if key == "url" else "ext")
    finished = tilescope("baseline", "list", "--store", "git:b", "--remote", "origin")
    assert (finished.code, finished.out) == (2, "")
    assert "transport 'ext' not allowed" in finished.err
    assert not (repository / "ran").exists()


@pytest.mark.parametrize(
    "branch",
    [
        "HEAD", "@", "@{-1}", "a@{1}", "FETCH_HEAD", "ORIG_HEAD", "refs/heads/b", "refs/b",
        "-b", "--all", "a..b", "a b", "a:b", "a^b", "a~1", "a\0b", "a\nb", "b.lock", ".b",
        "/b", "b/", "a//b", "a\\b", "b*", "", "0" * 40, "x" * 300, "x" * 150_000,
    ],
    ids=name_of,
)  # fmt: skip
def test_names_that_are_not_of_a_branch(
    tilescope: Run, reports_directory: Path, repository: Path, branch: str
) -> None:
    before = git(repository, "for-each-ref")
    configure(repository, store=f"git:{branch}", remote="origin")
    finished = tilescope("baseline", "save", reports_directory / "baseline")
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert "is not a valid name of a branch" in finished.err
    assert git(repository, "for-each-ref") == before


def test_hooks_of_the_repository_do_not_run(
    tilescope: Run, reports_directory: Path, repository: Path
) -> None:
    for hook in ("reference-transaction", "pre-push", "post-commit", "post-index-change"):
        path = repository / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch '{repository}/ran'\n")
        path.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"touch '{repository}/ran'; true")
    finished = tilescope("baseline", "save", reports_directory / "baseline", "--store", "git:b",
                     "--remote", "origin")  # fmt: skip
    assert (finished.code, finished.err) == (0, "")
    assert tilescope("baseline", "list", "--store", "git:b", "--remote", "origin").code == 0
    assert not (repository / "ran").exists()


def test_variables_of_another_repository_are_left_out(
    tilescope: Run,
    reports_directory: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Git sets them for its hooks, such as one that saves a baseline."""
    git(repository.parent, "init", "-q", "second")
    monkeypatch.setenv("GIT_DIR", str(repository.parent / "second" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository.parent / "second"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository.parent / "index"))
    assert (
        tilescope("baseline", "save", reports_directory / "baseline", "--store", "git:b").code == 0
    )
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert git(repository, "for-each-ref", "refs/heads/b")
    assert not (repository.parent / "index").exists()


def test_git_is_not_taken_from_the_working_directory(
    tilescope: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "git").write_text("#!/bin/sh\ntouch ran\n")
    (repository / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert tilescope("baseline", "list", "--store", "git:b").code == 0
    assert not (repository / "ran").exists()
    monkeypatch.setenv("PATH", ".")
    with pytest.raises(StoreNotUsable, match="git is not installed"):
        open_store("git:b")


def test_a_branch_with_entries_of_every_kind_is_listed(
    tilescope: Run, repository: Path, reports_directory: Path
) -> None:
    assert (
        tilescope("baseline", "save", reports_directory / "baseline", "--store", "git:b").code == 0
    )
    blob = git(repository, "hash-object", "-w", "--stdin").strip()
    tip = git(repository, "rev-parse", "b").strip()
    lines = [f"160000 {tip}\tsub/module/x/baseline.pop", f"120000 {blob}\ta/link/x/baseline.pop",
             f"100644 {blob}\t-x/--y/\x1b[31m/baseline.pop"]  # fmt: skip
    index = {**os.environ, "GIT_INDEX_FILE": str(repository.parent / "index")}
    for command, value in (
        (["read-tree", "b"], ""), (["update-index", "--index-info"], "\n".join(lines) + "\n")
    ):  # fmt: skip
        subprocess.run(["git", *command], input=value, text=True, env=index, check=True)
    tree = subprocess.run(["git", "write-tree"], env=index, capture_output=True, check=True).stdout
    commit = git(repository, "commit-tree", tree.decode().strip(), "-m", "x", "-p", tip).strip()
    git(repository, "update-ref", "refs/heads/b", commit)
    finished = tilescope("baseline", "list", "--store", "git:b")
    assert (finished.code, finished.err) == (0, "")
    assert "small" in finished.out
    assert "\x1b" not in finished.out
    assert "module" not in finished.out


@pytest.mark.parametrize("store", ["a\0b", "a\nb", "--upload-pack=touch ran; true"])
def test_a_store_that_is_a_directory(tilescope: Run, repository: Path, store: str) -> None:
    configure(repository, store=store)
    finished = tilescope("baseline", "list")
    assert (finished.code, len(finished.err.splitlines())) in ((2, 1), (0, 0))
    assert not (repository / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")
def test_a_repository_of_another_user_is_refused(
    tilescope: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repository.parent))  # without a safe.directory of the user
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for path in (repository, repository / ".git"):
        os.chown(path, 31_002, 31_002)
    finished = tilescope("baseline", "list", "--store", "git:b")
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert "belongs to another user" in finished.err
    assert "safe.directory" in finished.err


@pytest.mark.parametrize(
    ("hook", "script", "said"),
    [
        (
            "pre-receive",
            "echo 'failed to lock: fetch first, rejected' >&2; exit 1",
            "pre-receive hook declined (failed to lock: fetch first, rejected)",
        ),
        ("update", "exit 1", "hook declined (error: hook declined to update refs/heads/b)"),
        (
            "pre-receive",
            "echo 'GH006: Protected branch update failed' >&2; echo >&2; exit 1",
            "pre-receive hook declined (GH006: Protected branch update failed)",
        ),
    ],
)
def test_a_refused_push_says_why_and_is_not_repeated(
    tilescope: Run,
    repository: Path,
    reports_directory: Path,
    hook: str,
    script: str,
    said: str,
) -> None:
    server = repository.parent / "server.git"
    git(repository, "init", "-q", "--bare", str(server))
    git(repository, "remote", "set-url", "origin", str(server))
    calls = repository.parent / "calls"
    (server / "hooks" / hook).write_text(f"#!/bin/sh\necho x >> {calls}\n{script}\n")
    (server / "hooks" / hook).chmod(0o755)
    finished = tilescope("baseline", "save", reports_directory / "baseline", "--store", "git:b",
                     "--remote", "origin")  # fmt: skip
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert f"origin does not take branch b: {said}; the job needs permission" in finished.err
    assert calls.read_text() == "x\n"


def test_a_branch_that_stands_in_the_way_of_another_is_not_a_race(
    tilescope: Run, repository: Path, reports_directory: Path
) -> None:
    server = repository.parent / "server.git"
    git(repository, "init", "-q", "--bare", str(server))
    git(repository, "push", "-q", str(server), "main:refs/heads/ci")
    options = ("--store", "git:ci/b", "--remote", str(server))
    finished = tilescope("baseline", "save", reports_directory / "baseline", *options)
    assert (finished.code, len(finished.err.splitlines())) == (2, 1)
    assert "does not take branch ci/b" in finished.err
    git(repository, "branch", "local")
    finished = tilescope(
        "baseline", "save", reports_directory / "baseline", "--store", "git:local/b"
    )
    assert (finished.code, len(finished.err.splitlines())) == (2, 1)
    assert "cannot move local/b" in finished.err


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("fetch first", True),
        ("non-fast-forward", True),
        ("cannot lock ref 'refs/heads/b': is at 12ab but expected 34cd", True),
        ("Unable to create '/x/refs/heads/b.lock': File exists.", True),
        ("incorrect old value provided", True),
        ("cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create", False),
        ("cannot lock ref 'refs/heads/b': Unable to create 'b.lock': Permission denied", False),
        ("protected branch hook declined", False),
        ("unpacker error", False),
        ("", False),
    ],
)
def test_only_a_branch_that_moves_is_a_race(reason: str, passes: bool) -> None:
    assert is_race(reason) is passes
