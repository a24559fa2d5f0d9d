"""Kernels compiled ahead: the launchers of the engine's own codelets, in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from tilescope.engine.compiler.executable.codelet_place import codelet_modules, codelets_of
from tilescope.engine.errors import BadInput
from tilescope.engine.execute.launcher import launcher_of, rounded_fields
from tilescope.engine.graph import Graph
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.host.jit.code_files import CHOICE, cache_folder
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.processor import note_processor
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._rounding import rounder_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.machine import load_machine
from tilescope.engine.number.dtype import DTYPES
from tilescope.engine.number.grid import HALF
from tilescope.engine.options import resolve
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.compile import compile_programs
from tilescope.engine.session.engine import Engine
from tilescope.private_folder import NotPrivate, PrivateFolder

__all__ = ["Warmup", "warm_up"]

#: File with the launchers for which codelets have no code: functions of bits on floats.
_LEFT_OUT = "left-out"
#: Kernels that a process takes at a time.
_AT_ONCE = 4
_LARGEST_LIST_BYTES = 1 << 20
#: Python's variable; a process that `spawn` starts imports from the working directory otherwise.
_SAFE_PATH = "PYTHONSAFEPATH"


@dataclass(frozen=True)
class _Kernel:
    """A codelet on one type of numbers: its module, its place among those there, the type."""

    module: str
    place: int
    dtype: str

    def launcher(self) -> Entry:
        """Return the launcher of the codelet on this type."""
        codelet = list(codelets_of(import_module(self.module)))[self.place]
        types = [DTYPES[field.dtype or self.dtype] for field in codelet.fields]
        hosts = tuple(dtype.host for dtype in types)
        entry: Entry = launcher_of(codelet, hosts, rounded_fields(codelet, types))
        return entry


@dataclass(frozen=True)
class Warmup:
    """What a warm-up did.

    Parameters
    ----------
    n_compiled, n_kernels
        Kernels that it compiled, and kernels in the folder now.
    folder
        The folder, a path.
    processor
        Name of the processor that they are compiled for.
    """

    n_compiled: int
    n_kernels: int
    folder: str
    processor: str


def _types_of(codelet: Codelet) -> Iterator[str]:
    """Yield types of a codelet's fields that take any: integers where it does no arithmetic."""
    yield "float32"
    if not all(field.dtype for field in codelet.fields):
        yield "float16"
        if codelet.flops is None:
            yield "int32"


def _kernels() -> dict[str, _Kernel]:
    """Return the kernels of all codelets of the engine, by the name of their launcher."""
    kernels: dict[str, _Kernel] = {}
    for module in codelet_modules():
        for index, codelet in enumerate(codelets_of(module)):
            for dtype in _types_of(codelet):
                kernel = _Kernel(module.__name__, index, dtype)
                kernels.setdefault(kernel.launcher().name, kernel)
    return kernels


def _compile(kernel: _Kernel) -> bool:
    """Compile a kernel into the cache; return False if the codelet has no code for the type."""
    from numba.core.errors import NumbaError

    try:
        kernel.launcher().load()
    except NumbaError:
        return False
    return True


def _writable(path: Path) -> PrivateFolder:
    """Return the folder of compiled kernels, made if it is missing.

    Raises
    ------
    BadInput
        When compilation is disabled, another user may write to the folder, or this one may not.
    """
    if not IS_COMPILED:
        raise BadInput("NUMBA_DISABLE_JIT is set: without it, kernels are compiled")
    folder = PrivateFolder(path)
    try:
        folder.make()
        _write_names(folder, _left_out_in(folder))
    except NotPrivate as error:
        raise BadInput(
            f"Compiled kernels are not written to {path}: {error.advice(CHOICE)}"
        ) from None
    except OSError as error:
        raise BadInput(
            f"Cannot write compiled kernels to {path}: {error.strerror};"
            " name another directory in NUMBA_CACHE_DIR"
        ) from None
    return folder


def _left_out_in(folder: PrivateFolder) -> set[str]:
    """Return the launchers for which codelets have no code; none without the file."""
    try:
        return set(folder.read(_LEFT_OUT, _LARGEST_LIST_BYTES).decode("ascii").split())
    except (FileNotFoundError, ValueError):
        return set()
    except NotPrivate as error:
        if error.is_folder:
            raise
        return set()


def _write_names(folder: PrivateFolder, names: set[str]) -> None:
    folder.write(_LEFT_OUT, "\n".join(sorted(names)).encode("ascii"))


def _compile_compiler() -> None:
    """Compile a product, whose exchanges and layout need the compiler's own kernels."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=64))
    program = Sequence("warm-up")
    left, right = (graph.add_variable("float32", (1, 64, 64), name) for name in ("left", "right"))
    for operand in (left, right):
        graph.map_linearly(operand)
    program.add(StreamCopyIn("left", left), StreamCopyIn("right", right))
    product = matmul(Builder(graph, program), left, right, name="product")
    program.add(StreamCopyOut(product, "product"))
    executable = compile_programs(graph, [program], is_instrumented=True)
    with Engine(executable, resolve(environ={})) as device:
        for name in ("left", "right"):
            device.connect_stream(name, np.zeros((1, 64, 64), np.float32))
        device.run()
    rounder_of(HALF).load()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start processes that import no module from the working directory, whatever it holds."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def warm_up(
    tell: Callable[[int, int], None] | None = None, n_processes: int | None = None
) -> Warmup:
    """Compile the kernels of the engine's own codelets for later processes.

    Fields that take any type are compiled for float and half, and for integers where a codelet does
    no arithmetic. What programs define themselves is compiled when they run.

    Parameters
    ----------
    tell
        Called with the numbers of kernels done and to do.
    n_processes
        Processes to compile in; by default one per processor.

    Raises
    ------
    BadInput
        When compilation is disabled, or the folder is not writable.
    """
    folder = _writable(cache_folder())
    known = _kernels()
    left_out = _left_out_in(folder)
    missing = {
        name: kernel
        for name, kernel in known.items()
        if name not in left_out and not kernel.launcher().is_kept
    }
    n_compiled = 0
    if missing:
        n_processes = min(n_processes or len(os.sched_getaffinity(0)), len(missing))
        with _safe_path(), ProcessPoolExecutor(n_processes, get_context("spawn")) as pool:
            compiler = pool.submit(_compile_compiler)
            compiled = pool.map(_compile, missing.values(), chunksize=_AT_ONCE)
            for count, (name, has_code) in enumerate(zip(missing, compiled, strict=True), 1):
                n_compiled += has_code
                if not has_code:
                    left_out.add(name)
                if tell is not None:
                    tell(count, len(missing))
            compiler.result()
        _write_names(folder, left_out)
    n_kernels = len(known) - len(left_out & set(known))
    return Warmup(n_compiled, n_kernels, str(folder.path), note_processor())
