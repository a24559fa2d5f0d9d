"""Processor time of starts: imports, commands, first runs on a machine. Never fails on time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.speed.parts import start_parts

_ROOT = Path(__file__).parents[2]


def test_starts() -> None:
    for subject, seconds in start_parts().items():
        sys.stdout.write(f"\n{subject}: {1e3 * seconds:,.0f} ms")


@pytest.mark.parametrize(
    ("name", "precision"),
    [("opennsfw", "float"), ("opennsfw", "half"), ("light-resnet50", "float")],
)
def test_runs_on_a_fresh_machine(
    tmp_path: Path, catalogue_model: Callable[[str], Path], name: str, precision: str
) -> None:
    """The second run finds kernels and plans of the first."""
    model = catalogue_model(name)
    environ = {
        **os.environ,
        "PYTHONPATH": str(_ROOT / "compat"),
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
    }
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has bytecode
    command = [
        sys.executable,
        "-m",
        "tilescope",
        "run",
        str(model),
        "--precision",
        precision,
        "--quiet",
    ]
    for subject in ("first", "second"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environ, cwd=tmp_path, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        sys.stdout.write(f"\n{name} in {precision}, {subject} run: {seconds:.1f} s")
