"""Kernels from the cache: code of several processes works together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
from tilescope.engine.jit._jit import cached_jit, jit

def made(operation):
    inner = jit(operation)
    @jit
    def each(x):
        total = 0.0
        for i in range(10):
            total += inner(x + i)
        return total
    @cached_jit
    def run(x):
        return each(x)
    return run

add = made(lambda x: x + 1.0)
double = made(lambda x: x * 2.0)
"""


def printed(code: str, folder: Path) -> str:
    """Return what a process prints that imports the kernels."""
    paths = os.pathsep.join([str(folder), *sys.path])
    environ = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", f"import kernels\n{code}"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


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
        "from tilescope.engine.jit._jit import jit\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "print(FunctionIdentity.from_function(lambda x: x).unique_id)"
    )
    first, second = (int(printed(code, tmp_path)) for _ in range(2))
    assert abs(first - second) > 10_000


def test_a_kernel_that_compiled_code_calls_is_called_from_python_too(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(MODULE)
    code = (
        "inner = kernels.jit(lambda x: x + 1.0)\n"
        "outer = kernels.cached_jit(lambda x: inner(x) * 2.0)\n"
        "print(inner(1.0), outer(1.0), inner(2.0))"
    )
    assert printed(code, tmp_path) == "2.0 4.0 3.0"


NESTED = """
import numpy as np
from tilescope.engine.jit._jit import cached_jit, jit

@jit
def checked(x):
    if x[0] < 0:
        raise ValueError("below zero")
    print("array", x)
    return factorial(x.size)

@jit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

@cached_jit
def run(x):
    return checked(x)

def said(x):
    try:
        return run(x)
    except ValueError as error:
        return str(error)
"""


def test_what_a_kernel_calls_prints_raises_and_calls_itself(tmp_path: Path) -> None:
    """The second process takes it from the cache."""
    (tmp_path / "kernels.py").write_text(NESTED)
    code = "import numpy as np; print(kernels.said(np.ones(4)), kernels.said(-np.ones(1)))"
    for _ in range(2):
        assert printed(code, tmp_path) == "array [1. 1. 1. 1.]\n24 below zero"


def test_a_function_for_python_that_another_one_calls_keeps_its_own_code(tmp_path: Path) -> None:
    module = (
        "from tilescope.engine.jit._jit import cached_jit\n"
        "@cached_jit\ndef inner(x):\n    return x + 1\n"
        "@cached_jit\ndef outer(x):\n    return inner(x) * 2\n"
    )
    (tmp_path / "kernels.py").write_text(module)
    for _ in range(2):
        assert printed("print(kernels.outer(1), kernels.inner(1))", tmp_path) == "4 2"
