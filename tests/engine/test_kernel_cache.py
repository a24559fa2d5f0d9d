"""Kernels from the cache: code of several processes works together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import numpy as np
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.entry import array_pass

def made(operation):
    inner = jit(operation)
    @jit
    def each(x):
        total = 0.0
        for i in range(10):
            total += inner(x + i)
        return total
    @array_pass("", writes="float64[:]")
    def run(x):
        x[0] = each(x[0])
    def called(x):
        array = np.array([x])
        run(array)
        return float(array[0])
    return called

add = made(lambda x: x + 1.0)
double = made(lambda x: x * 2.0)
"""


def printed(code: str, folder: Path) -> str:
    """Return what a process prints that imports the kernels."""
    paths = os.pathsep.join([str(folder), *sys.path])
    environ = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache")}
    environ["NUMBA_DISABLE_JIT"] = "0"  # what is tested is compiled code
    process = subprocess.run(
        [sys.executable, "-c", f"import kernels\n{code}"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout.strip()


def test_kernels_that_two_processes_compiled_keep_their_values(tmp_path: Path) -> None:
    """Both compile a function of one name and one type as the first of their process."""
    (tmp_path / "kernels.py").write_text(MODULE)
    assert printed("print(kernels.add(1.0))", tmp_path) == "65.0"
    assert printed("print(kernels.double(1.0))", tmp_path) == "110.0"
    assert printed("print(kernels.add(1.0), kernels.double(1.0))", tmp_path) == "65.0 110.0"


def test_every_process_numbers_functions_from_another_number(tmp_path: Path) -> None:
    """Their symbols hold the number: equal ones would let the linker drop a kernel."""
    (tmp_path / "kernels.py").write_text("")
    code = (
        "import tilescope.engine.host.jit.compiler\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "print(FunctionIdentity.from_function(lambda x: x).unique_id)"
    )
    first, second = (int(printed(code, tmp_path)) for _ in range(2))
    assert abs(first - second) > 10_000


def test_a_kernel_that_compiled_code_calls_is_called_from_python_too(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(MODULE)
    code = (
        "inner = kernels.jit(lambda x: x + 1.0)\n"
        "outer = kernels.made(lambda x: inner(x) * 2.0)\n"
        "print(inner(1.0), outer(1.0), inner(2.0))"
    )
    assert printed(code, tmp_path) == "2.0 130.0 3.0"


def test_a_file_that_is_torn_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(MODULE)
    assert printed("print(kernels.add(1.0))", tmp_path) == "65.0"
    (file,) = (tmp_path / "cache").glob("*/*/run_*")
    full = file.read_bytes()
    for torn in (full[:-100], b"", full[:40] + b"?" + full[41:]):
        file.write_bytes(torn)
        assert printed("print(kernels.add(1.0))", tmp_path) == "65.0"
        assert len(file.read_bytes()) > len(full) - 100


def test_without_a_writable_folder_kernels_are_compiled_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(MODULE)
    (tmp_path / "cache").touch()
    for _ in range(2):
        assert printed("print(kernels.add(1.0))", tmp_path) == "65.0"


NESTED = """
import ctypes
import numpy as np
from tilescope.engine.host.jit._jit import allocating_jit, jit
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.tables import array_in

@allocating_jit
def checked(x):
    if x[0] < 0:
        raise ValueError("below zero")
    print("array", x)
    return factorial(x.size)

@jit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

float64 = np.float64

def enter(first, last, table):
    x = array_in(table, 0, 1, float64)
    x[0] = checked(x)

def twice(first, last, table):
    x = array_in(table, 0, 1, float64)
    x[:] = np.sort(x * 2)

def run(function, x):
    table = np.array([x.ctypes.data, x.size])
    entry = Entry("nested", function, counts_references=True)
    word, place = ctypes.c_int64, (ctypes.c_void_p * 2)()
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, word, word, word)
    at = ctypes.addressof(place)
    status = kind(entry.address)(at, at + 8, 0, 1, table.ctypes.data)
    if status > 0:
        try:
            entry(0, 1, table.ctypes.data)
        except ValueError as error:
            return str(error), entry.is_kept
    return x.tolist(), entry.is_kept
"""


def test_what_a_kernel_calls_prints_raises_and_calls_itself(tmp_path: Path) -> None:
    """It needs objects of its process, and is compiled in each."""
    (tmp_path / "kernels.py").write_text(NESTED)
    code = (
        "import numpy as np; run, enter = kernels.run, kernels.enter\n"
        "print(run(enter, np.ones(4)), run(enter, -np.ones(1)))"
    )
    for _ in range(2):
        assert printed(code, tmp_path) == (
            "array [1. 1. 1. 1.]\n([24.0, 1.0, 1.0, 1.0], False) ('below zero', False)"
        )


@pytest.mark.slow
def test_a_kernel_that_makes_arrays_is_taken_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(NESTED)
    code = "import numpy as np; print(kernels.run(kernels.twice, np.array([3.0, 1.0])))"
    for _ in range(2):
        assert printed(code, tmp_path) == "([2.0, 6.0], True)"


@pytest.mark.slow
def test_a_process_that_finds_all_kernels_compiled_has_no_compiler(tmp_path: Path) -> None:
    """Importing numba takes longer than most runs."""
    (tmp_path / "kernels.py").write_text("from tilescope.engine.session import warmup")
    code = (
        "import sys\n"
        "kernels.warmup._compile_compiler()\n"
        "print(sum(name.split('.')[0] == 'numba' for name in sys.modules) > 0)"
    )
    assert [printed(code, tmp_path) for _ in range(2)] == ["True", "False"]
