"""Kernels compiled as parts of their callers, and by numba alone where it is another one."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core.codegen import JITCodeLibrary

from tilescope.engine.host.jit import compiler
from tilescope.engine.host.jit.compiler import compiled, for_python, linked
from tilescope.engine.host.jit.linked_library import is_known

config: Any = numba.config
pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="compilation is disabled")


def _sum_of_calls() -> float:
    """Return what a function makes of two calls of another one."""
    inner = linked(lambda a, b: a * 10.0 + b, counts_references=False)
    return float(for_python(lambda a, b: inner(a, b) + inner(b, a))(3, 4))


def _nothing(a: int, b: int, c: int) -> None:
    """Take three numbers, as what is called by address does."""


def test_a_kernel_is_compiled_as_part_of_its_caller() -> None:
    assert is_known()
    assert _sum_of_calls() == 34 + 43
    assert compiled(_nothing, counts_references=False).code is not None


def test_another_numba_compiles_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_verify_declare_only_symbols"
    owner = next(kind for kind in JITCodeLibrary.__mro__ if name in vars(kind))
    monkeypatch.delattr(owner, name)
    assert not is_known()
    monkeypatch.undo()
    monkeypatch.setattr(compiler, "_IS_KNOWN", False)
    assert _sum_of_calls() == 34 + 43
    kernel = compiled(_nothing, counts_references=False)
    assert kernel.address
    assert kernel.code is None, "its code cannot be kept for other processes"


def test_an_error_names_the_place() -> None:
    @numba.njit
    def wrong(x: Any) -> Any:
        return x.nothing_like_this

    with pytest.raises(numba.core.errors.TypingError, match=r"nothing_like_this"):
        wrong(1)


def test_numba_functions_that_kernels_called_are_callable_by_others() -> None:
    """Kernels need no wrappers of them; a function of a user's has its own."""
    of_kernel = for_python(lambda n: np.zeros(n).size + max(n, 3))
    assert of_kernel(4) == 8
    assert numba.njit(lambda n: np.zeros(n).sum() + max(n, 3))(4) == 4.0


def test_callbacks_of_the_lock_are_back_after_a_compilation() -> None:
    before = list(ffi.lib._lock._cblist)
    assert before
    assert for_python(lambda n: n + 7)(1) == 8
    assert ffi.lib._lock._cblist == before
