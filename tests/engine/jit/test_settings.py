"""The settings of numba are those that numba itself finds, in the environment and in its file."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

OURS = """
import sys
from tilescope.engine.host.jit import settings
name = settings.processor().name
print(not settings.IS_COMPILED, settings.checks_bounds(), settings.n_threads(), name)
print("numba" in sys.modules, file=sys.stderr)
"""
NUMBAS = """
import numba
from llvmlite import binding
config = numba.config
name = config.CPU_NAME or binding.get_host_cpu_name()
print(bool(config.DISABLE_JIT), bool(config.BOUNDSCHECK), config.NUMBA_NUM_THREADS, name)
"""


def told(code: str, folder: Path, **settings: str) -> tuple[str, str]:
    selected = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**selected, "PYTHONPATH": os.pathsep.join(sys.path), **settings},
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout, process.stderr


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"NUMBA_DISABLE_JIT": "1"},
        {"NUMBA_DISABLE_JIT": "0", "NUMBA_BOUNDSCHECK": "1"},
        {"NUMBA_DISABLE_JIT": "yes", "NUMBA_NUM_THREADS": "3"},
        {"NUMBA_CPU_NAME": "nehalem"},
    ],
)
def test_the_environment_means_what_it_means_to_numba(
    given: dict[str, str], tmp_path: Path
) -> None:
    ours, has_numba = told(OURS, tmp_path, **given)
    assert has_numba == "False\n"
    assert ours == told(NUMBAS, tmp_path, **given)[0]


def test_numbas_file_of_settings_is_read(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("num_threads: 2\nboundscheck: 1\n")
    ours, _ = told(OURS, tmp_path, NUMBA_CPU_NAME="haswell")
    assert ours == "False True 2 haswell\n"
    assert ours == told(NUMBAS, tmp_path, NUMBA_CPU_NAME="haswell")[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("NUMBA_CPU_NAME", "nehalem"), ("NUMBA_CPU_FEATURES", "+avx"), ("NUMBA_ENABLE_AVX", "0")],
)
def test_every_processor_has_files_of_its_own(name: str, value: str, tmp_path: Path) -> None:
    code = "from tilescope.engine.host.jit.code_files import _path; print(_path('launch_1'))"
    assert told(code, tmp_path, **{name: value}) != told(code, tmp_path)


def test_files_for_a_named_processor_are_found_on_any_host(tmp_path: Path) -> None:
    """Those of an image, compiled elsewhere."""
    code = (
        "from tilescope.engine.host.jit.settings import processor; print(processor().description)"
    )
    described, _ = told(code, tmp_path, NUMBA_CPU_NAME="haswell")
    assert described.split()[1:] == ["haswell"]


LOOP = """
import numba
import numpy as np
from tilescope.engine.host.jit.compiler import for_python

def double(x):
    for i in range(x.size):
        x[i] = 2 * x[i]

made = for_python(double)
made.compile((numba.float32[::1],))
(text,) = made.inspect_asm().values()
print(*(register for register in ("xmm", "ymm", "zmm") if register in text))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processors are x86-64")
@pytest.mark.parametrize(("name", "widest"), [("nehalem", "xmm"), ("haswell", "ymm")])
def test_code_for_a_named_processor_has_no_instructions_of_the_host(
    name: str, widest: str, tmp_path: Path
) -> None:
    registers, _ = told(LOOP, tmp_path, NUMBA_CPU_NAME=name)
    assert registers.split()[-1] == widest
