"""Private copies of unfinished reports: what is copied, and while an engine writes."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

from tilescope.reports import DamagedReport, NotAReport, ReportError, ReportWriter, open_report
from tilescope.reports.reading import side_files
from tilescope.reports.reading.file_header import read_header
from tilescope.reports.schema import provenance


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory that holds private copies."""
    directory = tmp_path / "copies"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.fixture
def leftover(tmp_path: Path) -> Path:
    """An unfinished report with three milestones, the last two in its write-ahead file."""
    with ReportWriter.create(tmp_path / "live") as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        writer.commit("run")
        path = tmp_path / "left" / writer.path.name
        path.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{writer.path}{suffix}", f"{path}{suffix}")
    return path


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _copied_bytes(directory: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


def test_a_hole_after_the_log_is_not_copied(leftover: Path, copies: Path) -> None:
    expected = _log(leftover).stat().st_size
    os.truncate(_log(leftover), 3 << 30)
    with open_report(leftover) as report:
        assert report.milestones == ["created", "compiled", "run"]
        (copy,) = copies.rglob("*-wal")
        assert copy.stat().st_size == expected


def test_a_log_without_a_header_is_not_copied(small_report: Path, copies: Path) -> None:
    _log(small_report).touch()
    os.truncate(_log(small_report), 3 << 30)
    with open_report(small_report) as report:
        assert report.is_complete
        assert not list(copies.rglob("*-wal")) or _copied_bytes(copies) < 10_000_000


def test_frames_of_an_earlier_use_of_the_log_are_not_copied(leftover: Path, copies: Path) -> None:
    log = bytearray(_log(leftover).read_bytes())
    sound = len(log)
    stale = bytearray(log[32:])
    for start in range(8, len(stale), 24 + 2048):
        stale[start] ^= 1
    _log(leftover).write_bytes(log + stale)
    with open_report(leftover) as report:
        assert report.milestones == ["created", "compiled", "run"]
        (copy,) = copies.rglob("*-wal")
        assert copy.stat().st_size == sound


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_file_that_is_not_a_report_is_not_copied(
    tmp_path: Path, copies: Path, suffix: str
) -> None:
    path = tmp_path / "profile_ab.pop"
    path.touch()
    os.truncate(path, 2 << 30)
    path.with_name(path.name + suffix).write_bytes(b"x" * 512)
    with pytest.raises(NotAReport, match="lacks the header"):
        open_report(path)
    assert _copied_bytes(copies) == 0


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_a_side_file_that_is_not_a_file_is_ignored(
    small_report: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    make(small_report.with_name(small_report.name + suffix))
    with open_report(small_report) as report:
        report.verify()
        assert report.is_complete


def test_a_damaged_log_leaves_an_earlier_milestone(leftover: Path) -> None:
    sound = _log(leftover).read_bytes()
    generator = random.Random(7)
    milestones = set()
    for _ in range(200):
        log = bytearray(sound)
        log[generator.randrange(len(log))] ^= 1 << generator.randrange(8)
        _log(leftover).write_bytes(log)
        try:
            with open_report(leftover) as report:
                assert report.column(provenance, "key") in ((), ("seed",))
                report.verify()
                assert not report.is_complete
                milestones.add(tuple(report.milestones))
        except DamagedReport:
            continue
    assert milestones == {("created",), ("created", "compiled")}


def test_a_log_of_another_page_size_is_refused(leftover: Path, tmp_path: Path) -> None:
    peer = tmp_path / "other.db"
    connection = apsw.Connection(str(peer))
    connection.execute(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; CREATE TABLE t (a)"
    ).fetchall()
    shutil.copyfile(f"{peer}-wal", _log(leftover))
    connection.close()
    with pytest.raises(DamagedReport, match="pages of 4096 bytes"):
        open_report(leftover)


def _hot_journal(path: Path, directory: Path) -> bytes:
    """Return the journal of a transaction that a crash leaves, and put its file at a path."""
    source = directory / "source.pop"
    shutil.copyfile(path, source)
    connection = apsw.Connection(str(source))
    connection.execute("PRAGMA cache_size=1; BEGIN IMMEDIATE").fetchall()
    connection.execute("UPDATE step SET name = name || 'x'; UPDATE variable SET name = 'y'")
    connection.cache_flush()
    journal = _journal(source).read_bytes()
    shutil.copyfile(source, path)
    connection.execute("ROLLBACK")
    connection.close()
    return journal


def test_a_hot_journal_is_rolled_back(small_report: Path, tmp_path: Path) -> None:
    with open_report(small_report) as report:
        expected = report.rows(provenance)
    (tmp_path / "work").mkdir()
    _journal(small_report).write_bytes(_hot_journal(small_report, tmp_path / "work"))
    with open_report(small_report) as report:
        report.verify()
        assert report.rows(provenance) == expected


def test_a_journal_that_names_another_file_leaves_it_alone(
    small_report: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    journal = _hot_journal(small_report, tmp_path / "work")
    victim = tmp_path / "victim"
    victim.write_bytes(b"/nowhere\0")
    name = os.fsencode(victim)
    checksum = sum(np.frombuffer(name, np.int8).tolist()) & 0xFFFFFFFF
    pointer = b"\xff" * 4 + name + len(name).to_bytes(4) + checksum.to_bytes(4) + journal[:8]
    _journal(small_report).write_bytes(journal + pointer)
    with pytest.raises(DamagedReport, match="-journal file does not belong"):
        open_report(small_report)
    assert victim.exists()


def test_a_journal_larger_than_its_report_is_not_copied(
    small_report: Path, tmp_path: Path, copies: Path
) -> None:
    (tmp_path / "work").mkdir()
    _journal(small_report).write_bytes(_hot_journal(small_report, tmp_path / "work"))
    os.truncate(_journal(small_report), 1 << 32)
    with pytest.raises(DamagedReport, match="-journal file does not belong"):
        open_report(small_report)
    assert _copied_bytes(copies) == 0


def test_a_full_temporary_directory_is_one_sentence(
    leftover: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(copies)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000))
    with pytest.raises(ReportError, match="lacks 1 MiB for it"):
        open_report(leftover)
    assert not list(copies.iterdir())


@pytest.mark.parametrize("n_bytes_left", [0, 16, 32])
def test_a_log_that_is_emptied_while_it_is_measured_has_nothing_to_copy(
    leftover: Path, monkeypatch: pytest.MonkeyPatch, n_bytes_left: int
) -> None:
    """The writer's checkpoint truncates the file after its header was read."""
    with leftover.open("rb") as stream:
        header = read_header(stream, leftover)
    checksum = side_files._log_checksum

    def truncate_first(start: bytes, *, is_big_endian: bool) -> tuple[int, int]:
        os.truncate(_log(leftover), n_bytes_left)
        return checksum(start, is_big_endian=is_big_endian)

    monkeypatch.setattr(side_files, "_log_checksum", truncate_first)
    with side_files.opened_side_file(_log(leftover)) as descriptor:
        assert descriptor is not None
        assert side_files.log_bytes(descriptor, header, leftover) in (0, 32)


def test_a_report_that_grows_fast_opens_at_every_moment(tmp_path: Path) -> None:
    """Every snapshot is one of the states that the writer committed."""
    is_over, is_due = threading.Event(), threading.Event()
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")

        def write() -> None:
            random = np.random.default_rng(7)
            while not is_over.wait(0.001):
                writer.append("trace.start_cycle", random.integers(0, 1 << 50, 5_000))
                writer.commit("run")
                os.utime(writer.path)  # the writer's sign of life
                if is_due.is_set():  # while the next snapshot is copied
                    is_due.clear()
                    connection = writer._connection
                    assert connection is not None
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            n_milestones = n_opened = 0
            while n_opened < 25 or n_milestones <= 25:  # however slow the writer is
                assert thread.is_alive()
                n_opened += 1
                with open_report(writer.path) as report:
                    report.verify()
                    assert len(report.milestones) >= n_milestones
                    n_milestones = len(report.milestones)
                is_due.set()
        finally:
            is_over.set()
            thread.join()
