"""Files that are small and grow, or large and no reports: ``python -m tests.faults.bombs``.

Each is opened and read in a process of its own, whose time and memory are measured.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import zstandard
from tests.faults.hostile_schemas import ADDED, ALTERED, FORGED, forge
from tests.faults.seal import reseal
from tests.generated_report import generate_report

from tilescope.reports import ReportError, ReportWriter, open_report
from tilescope.reports.schema import provenance

__all__ = ["compressed_bombs", "run"]

_MEBIBYTE = 1024**2
_PATIENCE_S = 60.0
#: Time and growth of memory of every case, at most.
LIMIT_S = 2.0
LIMIT_MEBIBYTES = 256


def compressed_bombs() -> dict[str, bytes]:
    """Return chunks of zstd that unpack to more than they may, or to nothing."""
    zeros = zstandard.ZstdCompressor(level=19)
    giant = zeros.compress(bytes(256 * _MEBIBYTE))
    unsized = zstandard.ZstdCompressor(level=19, write_content_size=False)
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    )
    return {
        "256 MiB of zeros": giant,
        "of unknown size": unsized.compress(bytes(64 * _MEBIBYTE)),
        "nested": zeros.compress(giant),
        "two frames": zeros.compress(bytes(64)) + giant,
        "a wide window": wide.compress(bytes(200 * _MEBIBYTE)),
        "nothing": b"",
        "a cut frame": giant[:-20],
    }


def run() -> dict[str, dict[str, float | str]]:
    """Return outcome, processor time and memory by case; the time and memory are those of reading.

    An outcome is ``read``, the code of an error of reports, or the name of a foreign exception.
    """
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        sound = generate_report(
            directory / "sound", n_tiles=8, n_steps=30, n_variables=9, distinct_patterns=6
        ).read_bytes()
        for name, make in _cases(sound).items():
            position = directory / "case"
            position.mkdir()
            try:
                answers[name] = _measured(make(position))
            except apsw.SQLError:
                continue  # this SQLite lacks the module
            finally:
                shutil.rmtree(position)
    return answers


def _cases(sound: bytes) -> dict[str, Callable[[Path], Path]]:
    """Return what makes the file of every case in a directory."""
    cases: dict[str, Callable[[Path], Path]] = {
        "sound": lambda place: _written(place, sound),
        "1 GiB of garbage": _garbage,
        "2 GiB hole": lambda place: _hole(place, ""),
        "2 GiB hole with a log": lambda place: _hole(place, "-wal"),
        "2 GiB hole with a journal": lambda place: _hole(place, "-journal"),
        "3 GiB hole as a log": lambda place: _log_of_holes(place, sound),
        "3 GiB hole after a log": _hole_after_log,
        "hole of 1 TiB after a report with a log": lambda place: _long_report(place, sound),
    }
    bombs = {**compressed_bombs(), "1 GiB of zeros": _gibibyte()}
    for name, content in bombs.items():
        cases[f"chunk: {name}"] = partial(_bomb, sound, content)
    for statement in (*ADDED, *ALTERED, *FORGED):
        cases[f"schema: {statement[:70]!a}"] = partial(_forged, sound, statement)
    return cases


def _written(place: Path, content: bytes) -> Path:
    path = place / "profile.pop"
    path.write_bytes(content)
    return path


def _garbage(place: Path) -> Path:
    block = os.urandom(_MEBIBYTE)
    path = place / "profile.pop"
    with path.open("wb") as stream:
        for _ in range(1024):
            stream.write(block)
    return path


def _hole(place: Path, suffix: str) -> Path:
    path = _written(place, b"")
    os.truncate(path, 2 << 30)
    if suffix:
        path.with_name(path.name + suffix).write_bytes(b"x" * 512)
    return path


def _log_of_holes(place: Path, sound: bytes) -> Path:
    path = _written(place, sound)
    log = path.with_name(f"{path.name}-wal")
    log.touch()
    os.truncate(log, 3 << 30)
    return path


def _hole_after_log(place: Path) -> Path:
    with ReportWriter.create(place / "live") as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        path = place / writer.path.name
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{writer.path}{suffix}", f"{path}{suffix}")
    os.truncate(f"{path}-wal", 3 << 30)
    return path


def _long_report(place: Path, sound: bytes) -> Path:
    path = _written(place, sound)
    path.with_name(f"{path.name}-wal").touch()
    os.truncate(path, 1 << 40)
    return path


def _gibibyte() -> bytes:
    return zstandard.ZstdCompressor().compress(bytes(1024 * _MEBIBYTE))


def _bomb(sound: bytes, content: bytes, place: Path) -> Path:
    path = _written(place, sound)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE chunk SET data = ?", (content,))
    reseal(connection)
    connection.close()
    return path


def _forged(sound: bytes, statement: str, place: Path) -> Path:
    path = _written(place, sound)
    forge(path, statement)
    return path


def _measured(path: Path) -> dict[str, float | str]:
    """Return what reading a file gives and takes, in a process of its own."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_read, args=(path, theirs))
    process.start()
    theirs.close()
    try:
        if ours.poll(_PATIENCE_S):
            answer: dict[str, float | str] = ours.recv()
            return answer
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()
    return {"outcome": "crash or hang", "seconds": _PATIENCE_S, "mebibytes": 0.0}


def _read(path: Path, connection: Connection) -> None:
    """Open and verify a report; send the outcome."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before, began = _peak_mebibytes(), time.process_time()
    try:
        with open_report(path) as report:
            report.verify()
        outcome = "read"
    except ReportError as error:
        outcome = error.code
    except BaseException as error:
        outcome = type(error).__name__
    seconds = time.process_time() - began
    growth = _peak_mebibytes() - before
    connection.send({"outcome": outcome, "seconds": seconds, "mebibytes": growth})


def _peak_mebibytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def failures(answers: dict[str, dict[str, float | str]]) -> list[str]:
    """Return the cases that are slow, large or raise a foreign exception."""
    return [
        name
        for name, answer in answers.items()
        if float(answer["seconds"]) > LIMIT_S
        or float(answer["mebibytes"]) > LIMIT_MEBIBYTES
        or not str(answer["outcome"]).islower()
        or answer["outcome"] == "crash or hang"
    ]


def main() -> None:
    """Print all cases; exit with 1 if one of them failed."""
    answers = run()
    sys.stdout.write(f"{json.dumps(answers, indent=2)}\n")
    sys.exit(1 if failures(answers) else 0)


if __name__ == "__main__":
    main()
