"""Kernels that another user may have planted are neither linked nor waited for."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MALLORY = 31_002
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")

KERNELS = """
import numpy as np
from tilescope.engine.host.jit.entry import array_pass

@array_pass("", writes="float64[:]")
def double(x):
    x[0] = 2 * x[0]

array = np.array([21.0])
double(array)
print(array[0], double._entry.is_kept)
"""


def run(folder: Path, *, umask: int = 0o022) -> tuple[str, list[str]]:
    """Run a kernel in a process; return what it prints, and its warnings."""
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "NUMBA_DISABLE_JIT": "0"}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "compat"), *sys.path])
    process = subprocess.run(
        [sys.executable, "-c", KERNELS], env=environ, capture_output=True, text=True,
        check=True, timeout=120, umask=umask,
    )  # fmt: skip
    return process.stdout.strip(), process.stderr.splitlines()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the kernel, made by a process."""
    folder = tmp_path_factory.mktemp("compiled") / "cache"
    assert run(folder) == ("42.0 True", [])
    return folder


@pytest.fixture
def cache(compiled: Path, tmp_path: Path) -> Path:
    """Return a folder with the kernel, which the next process takes from it."""
    return Path(shutil.copytree(compiled, tmp_path / "cache"))


def test_the_next_process_takes_the_kernel_from_its_file(cache: Path) -> None:
    before = file_of(cache).stat()
    assert run(cache) == ("42.0 True", [])
    assert file_of(cache).stat().st_ino == before.st_ino


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*/*/double_*")
    return file


def plant(file: Path) -> bytes:
    """Replace the name of the function, with a digest that is right: anyone can compute it."""
    symbol, _, code = file.read_bytes()[16:].partition(b"\n")
    rest = b"planted" + symbol + b"\n" + code
    planted = hashlib.blake2b(rest, digest_size=16).digest() + rest
    file.write_bytes(planted)
    return planted


def test_everything_is_of_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    assert run(folder, umask=0)[0] == "42.0 True"
    for path in (folder.parent, *folder.parent.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("below", [".", "*", "*/*"])
@pytest.mark.parametrize("kind", ["mode", "owner"])
def test_a_folder_of_others_is_not_used_and_one_sentence_says_so(
    cache: Path, below: str, kind: str
) -> None:
    if kind == "owner" and os.geteuid() != 0:
        pytest.skip("gives files to other users: needs root")
    planted = plant(file_of(cache))
    folder = cache if below == "." else next(path for path in cache.glob(below) if path.is_dir())
    if kind == "mode":
        folder.chmod(0o777)
    else:
        os.chown(folder, MALLORY, MALLORY)
    problem = "may be written by other users" if kind == "mode" else f"belongs to user {MALLORY}"
    printed, warnings = run(cache)
    assert printed == "42.0 False"
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"warning: continuing without compiled kernels: {folder} {problem}"
    )
    assert "name another folder in NUMBA_CACHE_DIR" in warnings[0]
    assert file_of(cache).read_bytes() == planted


@pytest.mark.parametrize("kind", ["mode", "owner"])
def test_a_file_of_others_is_replaced(cache: Path, kind: str) -> None:
    if kind == "owner" and os.geteuid() != 0:
        pytest.skip("gives files to other users: needs root")
    file = file_of(cache)
    planted = plant(file)
    if kind == "mode":
        file.chmod(0o646)
    else:
        os.chown(file, MALLORY, MALLORY)
    printed, warnings = run(cache)
    assert printed == "42.0 True"
    assert len(warnings) == 1
    assert file.read_bytes() != planted
    assert (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (os.geteuid(), 0o600)
    assert run(cache) == ("42.0 True", [])


def test_an_entry_that_is_not_a_file_does_not_hold_a_run_up(cache: Path) -> None:
    file = file_of(cache)
    file.unlink()
    os.mkfifo(file)
    printed, warnings = run(cache)
    assert printed == "42.0 True"
    assert [line for line in warnings if "is not a file" in line] == warnings
    file.unlink()
    file.symlink_to("/dev/zero")
    assert run(cache)[0] == "42.0 True"
    assert file.is_file()
    assert not file.is_symlink()
    with file.open("r+b") as long:
        long.truncate(1 << 36)
    assert run(cache)[0] == "42.0 True"
    assert file.stat().st_size < 1 << 20


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\n",
        b"\xff\xfe\nnot code",
        b"no line",
        b"symbol\n\x7fELF\x02\x01symbol\0",
        b"symbol\n\x7fELF\x02\x01symbol\0" + b"\xff" * 100,
    ],
)
def test_content_that_is_no_code_is_compiled_anew(cache: Path, content: bytes) -> None:
    file = file_of(cache)
    file.write_bytes(hashlib.blake2b(content, digest_size=16).digest() + content)
    assert run(cache)[0] == "42.0 True"


@needs_root
def test_kernels_of_an_image_are_read_by_its_user_and_not_written(
    cache: Path, tmp_path: Path
) -> None:
    """Root made them, and `docker/warmup.sh` lets others read them."""
    folder = cache
    target = tmp_path / "target"
    (target / "bin").mkdir(parents=True)
    for name in ("python", "tilescope"):
        (target / "bin" / name).write_text("#!/bin/sh\n")
        (target / "bin" / name).chmod(0o755)
    command = [str(ROOT / "docker" / "warmup.sh"), str(target), str(folder), "haswell"]
    subprocess.run(command, check=True)
    for path in (folder, *folder.rglob("*")):
        status = path.stat()
        assert status.st_uid == 0
        assert stat.S_IMODE(status.st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_a_warm_up_says_why_it_does_not_write(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT / "compat")}
    environ["NUMBA_DISABLE_JIT"] = "0"
    process = subprocess.run(
        [sys.executable, "-m", "tilescope", "warmup"], env=environ, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stdout, len(process.stderr.splitlines())) == (2, "", 1)
    assert f"{folder} may be written by other users; run `chmod go-w {folder}`" in process.stderr
    assert list(folder.iterdir()) == []


_POOL = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tilescope.engine.session.warmup import _safe_path

if __name__ == "__main__":
    with _safe_path(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        print(pool.submit(abs, -1).result())
"""


def test_no_module_of_the_working_directory_is_imported_by_a_warm_up(tmp_path: Path) -> None:
    """Python looks there first where a process is started by a line of code."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("multiprocessing", "numpy", "json"):
        (work / f"{name}.py").write_text("open('ran', 'w')\n")
    (tmp_path / "script.py").write_text(_POOL)
    paths = os.pathsep.join([str(ROOT / "compat"), *(path for path in sys.path if path)])
    process = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], env={**os.environ, "PYTHONPATH": paths},
        cwd=work, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (process.stdout, process.stderr) == ("1\n", "")
    assert not (work / "ran").exists()
