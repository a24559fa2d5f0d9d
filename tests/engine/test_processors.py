"""Results are the same bits on any number of threads and on any processor."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
#: The oldest processor that the engine is compiled for; `make test-processors` names others.
_PROCESSORS = ("x86-64", *os.environ.get("TILESCOPE_TEST_PROCESSORS", "").split())
_FEATURES = {"haswell": "avx2", "skylake-avx512": "avx512f"}


def _digest(**environ: str) -> str:
    """Return the digest of a run in a process of its own."""
    command = [sys.executable, "-m", "tests.engine.digest_of_run"]
    path = os.pathsep.join([str(_ROOT / "compat"), str(_ROOT)])
    answer = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, **environ},
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip()


@pytest.fixture(scope="module")
def expected() -> str:
    """Return the digest on this processor, on one thread."""
    return _digest(NUMBA_NUM_THREADS="1")


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_compute_the_same_bits(n_threads: int, expected: str) -> None:
    assert _digest(NUMBA_NUM_THREADS=str(n_threads)) == expected


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the processors are of another architecture"
)
@pytest.mark.parametrize("processor", _PROCESSORS)
def test_processors_compute_the_same_bits(processor: str, expected: str, tmp_path: Path) -> None:
    """Kernels are compiled anew for the processor, so that sums have vectors of another width."""
    feature = _FEATURES.get(processor, "")
    if feature not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this processor has no {feature}")
    found = _digest(NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="", NUMBA_CACHE_DIR=str(tmp_path))
    assert found == expected
