"""Results are the same bits on any number of threads and on any processor."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
#: The oldest processor that the engine is compiled for; `make test-processors` names others.
_PROCESSORS = ("x86-64", *os.environ.get("TILESCOPE_TEST_PROCESSORS", "").split())
#: Models that are compared besides the one with all kinds of kernels; `make test-processors` does.
_MODELS = os.environ.get("TILESCOPE_TEST_MODELS", "").split()
_FEATURES = {"haswell": "avx2", "skylake-avx512": "avx512f"}


def _digest(models: Sequence[str] = (), **environ: str) -> str:
    """Return the digests of runs in a process of its own."""
    command = [sys.executable, "-m", "tests.engine.digest_of_run", *models]
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


@pytest.fixture(scope="module")
def expected_of_models() -> str:
    """Return the digests of whole models on this processor, on one thread."""
    return _digest(_MODELS, NUMBA_NUM_THREADS="1")


needs_models = pytest.mark.skipif(
    not _MODELS, reason="whole models take minutes: make test-processors runs them"
)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_compute_the_same_bits(n_threads: int, expected: str) -> None:
    assert _digest(NUMBA_NUM_THREADS=str(n_threads)) == expected


@needs_models
@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_compute_the_same_bits_of_models(n_threads: int, expected_of_models: str) -> None:
    assert _digest(_MODELS, NUMBA_NUM_THREADS=str(n_threads)) == expected_of_models


def _on(processor: str, folder: Path, models: Sequence[str] = ()) -> str:
    """Return the digests of runs with kernels that are compiled anew for a processor."""
    feature = _FEATURES.get(processor, "")
    if feature not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this processor has no {feature}")
    return _digest(models, NUMBA_CPU_NAME=processor, NUMBA_CACHE_DIR=str(folder))


on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the processors are of another architecture"
)


@pytest.mark.slow
@on_x86
@pytest.mark.parametrize("processor", _PROCESSORS)
def test_processors_compute_the_same_bits(processor: str, expected: str, tmp_path: Path) -> None:
    """Sums have vectors of another width."""
    assert _on(processor, tmp_path) == expected


@on_x86
@needs_models
@pytest.mark.parametrize("processor", _PROCESSORS)
def test_processors_compute_the_same_bits_of_models(
    processor: str, expected_of_models: str, tmp_path: Path
) -> None:
    assert _on(processor, tmp_path, _MODELS) == expected_of_models
