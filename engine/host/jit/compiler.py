"""How numba compiles kernels."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from typing import Any

import numba
from numba.core import bytecode as _bytecode
from numba.core import types
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher, cpu_target

from tilescope.engine.host.jit.code_files import FAST, Code
from tilescope.engine.host.jit.linked_library import KernelCompiler, LinkingCompiler, is_known
from tilescope.engine.host.jit.settings import processor

__all__ = [
    "SIGNATURE",
    "Compiled",
    "compiled",
    "declare_runtime",
    "for_python",
    "linked",
    "type_of",
]

#: Types of the arguments of a function that is called by address.
SIGNATURE = (numba.int64,) * 3
#: Variables of code that stand for what is only in this process.
_OF_PROCESS = (".numba.unresolved$", "numba.dynamic.globals")
#: Whether kernels are compiled as parts of their callers, and kept for other processes.
_IS_KNOWN = is_known()
if _IS_KNOWN:
    # numba numbers functions from 1 in every process, and their symbols carry the number. Code of
    # two processes from the cache could then have one symbol for two kernels made by one function,
    # of which the linker keeps the first: numbers begin elsewhere in every process.
    _bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48) << 14)
_config: Any = numba.config
_config.CPU_FEATURES = processor().features


class _Linked(CPUDispatcher):
    """A function compiled as part of its callers."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile it for the types of constants, not once more for every constant."""
        unliteral: Any = types.unliteral
        args = tuple(map(unliteral, args))
        return super().get_call_template(args, {name: unliteral(kws[name]) for name in kws})


class Compiled:
    """A function compiled for `SIGNATURE`, in this process."""

    def __init__(self, dispatcher: Any) -> None:
        self._overload = dispatcher.overloads[SIGNATURE]
        self._symbol = self._overload.fndesc.llvm_func_name

    @property
    def address(self) -> int:
        """Address of the function."""
        return int(self._overload.library.get_pointer_to_function(self._symbol))

    @property
    def code(self) -> Code | None:
        """Its code for other processes; None if it needs objects of this one, as to print does."""
        if not _IS_KNOWN:
            return None
        library = self._overload.library
        if library.codegen.magic_tuple()[1:] != processor():
            return None  # numba was used before, with other features
        if any(
            environment.consts for environment in self._overload._find_referenced_environments()
        ):
            return None
        variables = [environment.name for environment in library._final_module.global_variables]
        if any(name.startswith(_OF_PROCESS) for name in variables):
            return None
        return Code(self._symbol, library._get_compiled_object())


def compiled(function: Callable[..., Any], *, counts_references: bool) -> Compiled:
    """Compile a function for `SIGNATURE`, with everything that it calls as part of it."""
    dispatcher = _njit(function, LinkingCompiler, no_cpython_wrapper=True, _nrt=counts_references)
    dispatcher.compile(SIGNATURE)
    return Compiled(dispatcher)


def for_python(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, in this process."""
    return _njit(function, LinkingCompiler)


def linked(
    function: Callable[..., Any], *, counts_references: bool, is_inlined: bool = False
) -> Any:
    """Compile a function that compiled code calls: it has no wrapper for Python."""
    pipeline = Compiler if counts_references else KernelCompiler
    inlined = {"forceinline": True} if is_inlined else {}
    dispatcher = _njit(
        function, pipeline, no_cpython_wrapper=True, _nrt=counts_references, **inlined
    )
    dispatcher.__class__ = _Linked
    return dispatcher


def type_of(known: Any) -> Any:
    """Return the type of a function that numba knows."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(known)


def declare_runtime() -> None:
    """Make numba's functions for lists and arrays known to code of this process."""
    assert cpu_target.target_context is not None


def _njit(function: Callable[..., Any], pipeline: type[Compiler], **options: Any) -> Any:
    options |= {"no_cfunc_wrapper": True, "pipeline_class": pipeline if _IS_KNOWN else Compiler}
    return numba.njit(nogil=True, error_model="numpy", fastmath=set(FAST), **options)(function)
