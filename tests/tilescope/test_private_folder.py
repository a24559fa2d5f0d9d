"""Folders and files that another user may have written are not used."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilescope.private_folder import NotPrivate, PrivateFolder, access, warn_once

ALICE, MALLORY = 31_001, 31_002
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")


@contextlib.contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Act with the rights of a user."""
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that all users may read, below a folder that all may write to."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def folder_of(parent: Path, owner: int = -1, mode: int = 0o700, name: str = "cache") -> Path:
    """Return a folder with a file ``entry``."""
    path = parent / name
    path.mkdir()
    (path / "entry").write_bytes(b"content")
    (path / "entry").chmod(0o644)
    if owner >= 0:
        os.chown(path / "entry", owner, owner)
        os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def refusal(path: Path, name: str = "entry") -> str:
    with pytest.raises(NotPrivate) as error:
        PrivateFolder(path).read(name, 1_000)
    return str(error.value)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_folders_and_files_are_of_the_user_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = PrivateFolder(tmp_path / "a" / "b" / "c")
        folder.write("entry", b"content")
        folder.write("entry", b"second", is_durable=True)
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a/b/c/entry").stat().st_mode) == 0o600
    assert folder.read("entry", 6) == b"second"
    assert folder.names() == ["entry"]


def test_a_folder_that_is_missing_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PrivateFolder(tmp_path / "a" / "b").read("entry", 10)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o1777, 0o2775])
def test_a_folder_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    path = folder_of(tmp_path, mode=mode)
    assert refusal(path) == f"{path} may be written by other users"
    with pytest.raises(NotPrivate):
        PrivateFolder(path).write("second", b"x")
    assert [entry.name for entry in path.iterdir()] == ["entry"]
    below = path / "made" / "later"
    if mode & stat.S_ISVTX:  # as in /tmp, nobody changes the entries of others
        PrivateFolder(below).write("x", b"x")
    else:
        with pytest.raises(NotPrivate):
            PrivateFolder(below).write("x", b"x")
        assert not below.parent.exists()


@pytest.mark.parametrize("mode", [0o660, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_replaced(tmp_path: Path, mode: int) -> None:
    path = folder_of(tmp_path)
    (path / "entry").chmod(mode)
    assert refusal(path) == f"{path / 'entry'} may be written by other users"
    PrivateFolder(path).write("entry", b"own")
    assert PrivateFolder(path).read("entry", 10) == b"own"


@needs_root
def test_a_folder_or_file_of_another_user(shared: Path) -> None:
    path = folder_of(shared, MALLORY)
    assert refusal(path) == f"{path} belongs to user {MALLORY}"
    os.chown(path, 0, 0)
    assert refusal(path) == f"{path / 'entry'} belongs to user {MALLORY}"
    with acting_as(MALLORY), pytest.raises(PermissionError):
        PrivateFolder(path).read("entry", 10)


@needs_root
def test_a_folder_of_root_is_read_by_others_and_written_by_nobody_else(shared: Path) -> None:
    path = folder_of(shared, 0, 0o755)
    with acting_as(ALICE):
        assert PrivateFolder(path).read("entry", 10) == b"content"
        with pytest.raises(PermissionError):
            PrivateFolder(path).write("entry", b"own")
    assert (path / "entry").read_bytes() == b"content"


@needs_root
@pytest.mark.parametrize(("owner", "mode"), [(MALLORY, 0o755), (0, 0o777), (ALICE, 0o775)])
def test_a_folder_above_decides_too(shared: Path, owner: int, mode: int) -> None:
    above = shared / "above"
    (above / "between").mkdir(parents=True)
    os.chown(above / "between", ALICE, ALICE)
    path = folder_of(above / "between", ALICE)
    os.chown(above, owner, owner)
    above.chmod(mode)
    with acting_as(ALICE):
        assert refusal(path).startswith(f"{above} ")
        missing = above / "between" / "missing"
        with pytest.raises(NotPrivate):
            PrivateFolder(missing).write("x", b"x")
    assert not missing.exists()


def test_links_to_private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder_of(tmp_path)
    (tmp_path / "absolute").symlink_to(path)
    (tmp_path / "relative").symlink_to("absolute/../cache")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    for name in ("absolute", "relative", "cache/../relative", "./cache"):
        assert PrivateFolder(name).read("entry", 10) == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        PrivateFolder("loop").read("entry", 10)
    open_folder = folder_of(tmp_path, mode=0o777, name="open")
    (tmp_path / "to_open").symlink_to(open_folder)
    assert refusal(tmp_path / "to_open") == f"{open_folder} may be written by other users"


@needs_root
def test_a_link_of_another_user(shared: Path) -> None:
    path = folder_of(shared)
    sticky = shared / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "link").symlink_to(path)
    assert PrivateFolder(sticky / "link").read("entry", 10) == b"content"
    os.lchown(sticky / "link", MALLORY, MALLORY)
    assert refusal(sticky / "link") == f"{sticky / 'link'} belongs to user {MALLORY}"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(path.parent):
        listening.bind(path.name)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("makes a device: needs root")


def _link(path: Path) -> None:
    path.symlink_to("entry")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_fifo, _socket, _device, _link, _folder])
def test_what_is_not_a_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = folder_of(tmp_path)
    make(path / "odd")
    assert refusal(path, "odd") == f"{path / 'odd'} is not a file"
    if make is not _folder:
        PrivateFolder(path).write("odd", b"own")
        assert PrivateFolder(path).read("odd", 10) == b"own"
    assert (path / "entry").read_bytes() == b"content"


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    path = folder_of(tmp_path)
    with (path / "long").open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(path, "long") == f"{path / 'long'} is longer than 1,000 bytes"


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = folder_of(tmp_path) / "entry"
    for folder in (path, path / "below"):
        with pytest.raises(NotADirectoryError):
            PrivateFolder(folder).read("x", 10)
        with pytest.raises(NotADirectoryError):
            PrivateFolder(folder).write("x", b"x")


def test_a_folder_that_is_replaced_after_its_check(tmp_path: Path) -> None:
    """What was checked stays what is used."""
    path = folder_of(tmp_path)
    folder = PrivateFolder(path)
    assert folder.read("entry", 10) == b"content"
    path.rename(tmp_path / "moved")
    planted = folder_of(tmp_path, mode=0o777)
    (planted / "entry").write_bytes(b"planted")
    assert folder.read("entry", 10) == b"content"
    folder.write("second", b"x")
    assert (tmp_path / "moved" / "second").exists()


def test_a_folder_that_is_removed_is_made_again(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path / "cache")
    folder.write("entry", b"1")
    (tmp_path / "cache" / "entry").unlink()
    (tmp_path / "cache").rmdir()
    folder.write("entry", b"2")
    assert (tmp_path / "cache" / "entry").read_bytes() == b"2"


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder_of(tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work").rmdir()
    assert PrivateFolder(path).read("entry", 10) == b"content"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = folder_of(tmp_path)
    (path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        PrivateFolder(path).write("folder", b"x")
    assert {entry.name for entry in path.iterdir()} == {"entry", "folder"}


def test_a_warning_is_given_once_and_says_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_reported", set())
    path = folder_of(tmp_path, mode=0o777)
    (path / "a").mkdir()
    log = logging.getLogger("tilescope.test")
    with caplog.at_level(logging.WARNING):
        for below in (path, path / "a", path / "b"):
            with pytest.raises(NotPrivate) as error:
                PrivateFolder(below).write("x", b"x")
            warn_once(error.value, "compiled kernels", "name another folder in X", log)
    assert caplog.messages == [
        f"warning: continuing without compiled kernels: {path} may be written by other users;"
        f" run `chmod go-w {path}`, or name another folder in X"
    ]
