"""What numba's compiler computes again and again: the same results, and numba of another shape."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core import compiler_machinery, ir, postproc, targetconfig, types
from numba.core.base import BaseContext
from numba.core.compiler import Flags
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target
from numba.extending import overload

from tilescope.engine.host.jit import compiler_memo
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.compiler import for_python
from tilescope.engine.host.jit.compiler_memo import replace_method

config: Any = numba.config
compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="compilation is disabled")

REPLACED: list[tuple[Any, str]] = [
    (targetconfig.TargetConfig, "__hash__"),
    (targetconfig.TargetConfig, "__eq__"),
    (types.functions.BaseFunction, "get_call_type"),
    (BaseContext, "refresh"),
    (BaseContext, "get_abi_sizeof"),
    (CPUContext, "create_cfunc_wrapper"),
    (CPUContext, "create_cpython_wrapper"),
    (ir.Inst, "_rec_list_vars"),
    (ir.FunctionIR, "get_block_entry_vars"),
    (postproc.PostProcessor, "run"),
    (compiler_machinery.PassManager, "_runPass"),
]


@pytest.mark.parametrize(("owner", "name"), REPLACED)
def test_this_numba_has_the_methods(owner: Any, name: str) -> None:
    assert hasattr(getattr(owner, name), "__wrapped__")


def test_a_method_of_the_expected_parameters_is_replaced() -> None:
    class Compiler:
        def size(self, kind: str) -> int:
            return len(kind)

    def twice(original: Any) -> Any:
        return lambda self, kind: 2 * original(self, kind)

    assert replace_method(Compiler, "size", "self kind", twice, "len")
    assert Compiler().size("abc") == 6


@pytest.mark.parametrize(
    ("name", "parameters", "uses"),
    [("size", "self kind", ""), ("width", "self", ""), ("size", "self kind bits", "len sum")],
)
def test_another_numba_is_left_alone(name: str, parameters: str, uses: str) -> None:
    class Compiler:
        def size(self, kind: str, bits: int = 8) -> int:
            return bits * len(kind)

    assert not replace_method(Compiler, name, parameters, lambda _: None, uses)
    assert Compiler().size("abc") == 24
    assert not hasattr(Compiler, "width")


def test_a_constant_in_the_place_of_a_method_is_left_alone() -> None:
    module = SimpleNamespace(size=3)
    assert not replace_method(module, "size", "", lambda original: original)
    assert module.size == 3


def test_flags_are_equal_by_their_values_with_defaults() -> None:
    one: Any = Flags()
    other: Any = Flags()
    assert one == other
    one.nrt = False  # the default, but set
    assert one == other
    assert hash(one) == hash(other)
    one.nrt = True
    assert one != other
    assert one != 3


@compiled
def test_what_is_declared_later_is_found() -> None:
    """Registries are looked through again after a declaration."""
    before = jit(lambda x: x + 1.0)
    assert for_python(lambda x: before(x) * 2.0)(1.0) == 4.0

    def plus_two(x: float) -> float:
        return x + 2.0

    @overload(plus_two)
    def overloaded(x: Any) -> Any:
        assert x == types.float64

        def added(x: Any) -> Any:
            return x + 2.0

        return added

    after = for_python(lambda x: plus_two(x) * 2.0)
    assert after(1.0) == 6.0


@compiled
def test_signatures_are_kept_by_types_and_by_flags() -> None:
    """One function of numpy, called with two error models and with two types."""

    def quotient(values: Any, by: Any) -> Any:
        return np.empty(2, values.dtype).size + values[0] / by

    strict = numba.njit(quotient)
    loose = numba.njit(error_model="numpy")(quotient)
    for kind in (np.float32, np.float64, np.int64):
        values = np.array([3, 4], kind)
        assert loose(values, 2) == 3.5
        assert strict(values, 2) == 3.5
        with np.errstate(divide="ignore"):
            assert np.isinf(loose(values, 0))
        with pytest.raises(ZeroDivisionError):
            strict(values, 0)


@compiled
def test_an_index_that_is_true_is_not_one_that_is_one() -> None:
    """Constants that are equal in Python have different types."""

    @numba.njit
    def run() -> Any:
        pair = (1.5, 2)
        return pair[1], pair[0], pair[0:1], pair[1:2]

    assert run() == (2, 1.5, (1.5,), (2,))


@compiled
def test_a_generator_keeps_its_variables() -> None:
    @numba.njit
    def halves(n: int) -> Any:
        rest = n
        while rest > 0:
            yield rest
            rest //= 2

    assert list(halves(9)) == [9, 4, 2, 1]


@compiled
def test_who_listens_to_passes_hears_of_them() -> None:
    with numba.core.event.install_recorder("numba:run_pass") as heard:
        numba.njit(lambda x: x + 1)(1)
    assert {record.data["name"].split()[0] for _, record in heard.buffer} >= {"native_lowering"}


@compiled
def test_an_error_names_the_place() -> None:
    @numba.njit
    def wrong(x: Any) -> Any:
        return x.nothing_like_this

    with pytest.raises(numba.core.errors.TypingError, match=r"nothing_like_this"):
        wrong(1)


@compiled
def test_numba_functions_that_kernels_called_are_callable_by_others() -> None:
    """Kernels need no wrappers of them; a function of a user's has its own."""
    of_kernel = for_python(lambda n: np.zeros(n).size + max(n, 3))
    assert of_kernel(4) == 8
    assert numba.njit(lambda n: np.zeros(n).sum() + max(n, 3))(4) == 4.0


@compiled
def test_callbacks_of_the_lock_are_back_after_a_compilation() -> None:
    before = list(ffi.lib._lock._cblist)
    assert before
    assert for_python(lambda n: n + 7)(1) == 8
    assert ffi.lib._lock._cblist == before


def test_installing_twice_changes_nothing() -> None:
    compiler_memo.install()
    target = cpu_target.target_context
    assert target.get_abi_sizeof(target.get_value_type(types.int64)) == 8
    assert gc.isenabled()
