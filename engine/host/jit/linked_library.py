"""Compilation of what compiled code calls, as part of its callers only.

numba optimises every function on its own, generates machine code for it and wraps it for Python
and for C, and then does the first two again for each function that calls it. What a kernel calls is
needed once, in the code of the kernel: that takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.binding import ffi
from numba.core import typed_passes, untyped_passes
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock

from tilescope.collection import without_collection

__all__ = ["KernelCompiler", "LinkingCompiler", "is_known"]

#: What is used of numba besides its documented names, by owner.
_PRIVATE: dict[type, tuple[str, ...]] = {
    JITCPUCodegen: ("_library_class", "_module_pass_manager", "create_library", "set_env"),
    JITCodeLibrary: (
        "_ensure_finalized",
        "_finalize_final_module",
        "_get_compiled_object",
        "_optimize_final_module",
        "_optimize_functions",
        "_verify_declare_only_symbols",
        "get_pointer_to_function",
    ),
    Compiler: ("compile_extra", "define_pipelines"),
    FunctionIdentity: ("_unique_ids",),
}


def is_known() -> bool:
    """Return whether this numba has what these compilers use of it.

    If not, numba compiles in its own way: slower the first time, and anew in every process.
    """
    return all(hasattr(owner, name) for owner, names in _PRIVATE.items() for name in names)


class _Library(JITCodeLibrary):
    """Code that is optimised as a whole, once.

    numba runs passes on every function, then the optimiser on the module, removes counts of
    references, and runs the optimiser again.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(cost="cheap", opt=2)
        passes.run(self._final_module, builder)


class _LinkedLibrary(_Library):
    """Code that callers link in.

    It is optimised and emitted by itself only for its address, as of a function with a wrapper for
    Python.
    """

    is_linked = True

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._is_emitted = False
        self._environments: dict[str, Any] = {}

    @property
    def codegen(self) -> Any:
        """What registers the environments of the code: the library itself until it is emitted."""
        return super().codegen if self._is_emitted else self

    def set_env(self, name: str, environment: Any) -> None:
        """Keep the environment of a function until it is emitted."""
        self._environments[name] = environment

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; 0 if it is not part of the code."""
        self._ensure_finalized()
        if not self._is_emitted:
            if name not in {function.name for function in self.get_defined_functions()}:
                return 0
            self._emit()
        return int(super().get_pointer_to_function(name))

    def _emit(self) -> None:
        self._is_emitted = True
        super()._optimize_final_module()
        super()._finalize_final_module()
        codegen: Any = self._codegen
        for name, environment in self._environments.items():
            codegen.set_env(name, environment)

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@contextmanager
def _unheard() -> Iterator[None]:
    """Do not announce every call of LLVM to numba's timers."""
    lock: Any = getattr(ffi.lib, "_lock", None)
    callbacks = getattr(lock, "_cblist", None)
    if not isinstance(callbacks, list):
        yield
        return
    lock._cblist = []
    try:
        yield
    finally:
        lock._cblist = callbacks


#: Passes for comprehensions, closures, expressions on whole arrays and blocks of *with*, which
#: kernels do not have, and descriptions of their types.
_NOT_FOR_KERNELS = {
    typed_passes.AnnotateTypes,
    typed_passes.DumpParforDiagnostics,
    typed_passes.NopythonRewrites,
    untyped_passes.InlineClosureLikes,
    untyped_passes.InlineInlinables,
    untyped_passes.LiteralUnroll,
    untyped_passes.WithLifting,
}


class KernelCompiler(Compiler):
    """Compiles a kernel of the engine, with the passes that kernels need."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        pipelines: list[Any] = super().define_pipelines()
        for manager in pipelines:
            manager.passes = [
                compiler_pass
                for compiler_pass in manager.passes
                if compiler_pass[0] not in _NOT_FOR_KERNELS
            ]
        return pipelines


class LinkingCompiler(Compiler):
    """Compiles a function that Python calls, and everything that it calls as part of it."""

    def compile_extra(self, func: Any) -> Any:
        """Return the compiled function."""
        codegen = self.state.targetctx.codegen()
        with global_compiler_lock, without_collection(), _unheard():
            before = codegen._library_class
            codegen._library_class = _Library
            library = self.state.library = codegen.create_library(func.__qualname__)
            library.enable_object_caching()
            codegen._library_class = _LinkedLibrary
            try:
                compiled = super().compile_extra(func)
            finally:
                codegen._library_class = before
        for environment in compiled._find_referenced_environments():
            compiled.codegen.set_env(environment.env_name, environment)
        return compiled
