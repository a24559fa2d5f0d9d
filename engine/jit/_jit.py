"""The numba configuration: compilation of kernels and their cache.

numba does not recompile a cached function if the file of a function it calls changes, and reuses
a cache filled without bounds checks when they are enabled. To avoid both, the name of the cache
folder is a digest of all kernel sources, numba's version and the settings that affect code.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numba
import platformdirs
from numba.core import bytecode as _bytecode
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

from tilescope.engine.jit.compiler_memo import install
from tilescope.engine.jit.linked_library import KernelCompiler, LinkingCompiler

__all__ = [
    "allocating_jit",
    "cache_folder",
    "cached_jit",
    "is_cached",
    "jit",
    "source_digest",
    "uncached_jit",
]

# The same bits on any processor: no sum is reordered or fused with a product by the compiler, which
# would do so by the width of its vectors. Kernels that gain by it state their order themselves.
_FAST = {"nsz"}
#: numba populates this module on import.
_config: Any = numba.config
# numba numbers functions from 1 in every process, and their symbols carry the number. Code of two
# processes from the cache could then have one symbol for two kernels made by one function, of which
# the linker keeps the first: numbers begin elsewhere in every process.
_bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48) << 14)
_ROOT = Path(__file__).parent.parent
install()


@functools.cache
def _engine_sources() -> tuple[Path, ...]:
    names = ("codelets", "compiler/kernels", "intervals", "jit")
    folders = (_ROOT / name for name in names)
    return tuple(sorted(path for folder in folders for path in folder.glob("*.py")))


def source_digest() -> str:
    """Return a digest of the sources of all kernels."""
    digest = hashlib.blake2b(digest_size=8)
    for path in _engine_sources():
        digest.update(path.read_bytes())
    digest.update(repr((numba.__version__, _config.BOUNDSCHECK, sorted(_FAST))).encode())
    return digest.hexdigest()


@functools.cache
def cache_folder() -> Path:
    """Return the folder of this version's compiled kernels; it may not exist yet."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path(platformdirs.user_cache_dir("tilescope")) / "kernels"
    return root / source_digest()


class _Linked(CPUDispatcher):
    """A function compiled as part of its callers, and once more if Python calls it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile it for the types of constants, not once more for every constant."""
        unliteral: Any = types.unliteral
        args = tuple(map(unliteral, args))
        return super().get_call_template(args, {name: unliteral(kws[name]) for name in kws})

    @functools.cached_property
    def _for_python(self) -> Any:
        return uncached_jit(self.py_func)

    def __call__(self, *args: Any) -> Any:
        """Call it from Python."""
        return self._for_python(*args)


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that compiled code calls: it has no wrapper for Python.

    It makes no arrays, and returns none: its code counts no references. It has no comprehensions,
    inner functions, blocks of *with*, or expressions on whole arrays.
    """
    return _linked(function, counts_references=False)


def allocating_jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that compiled code calls, and that may make or return arrays."""
    return _linked(function, counts_references=True)


def cached_jit(function: Callable[..., Any], *, counts_references: bool = True) -> Any:
    """Compile a function that Python calls, and cache the code on disk."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_folder())
    options = {"pipeline_class": LinkingCompiler, "_nrt": counts_references}
    try:
        return _njit(function, cache=True, **options)
    except RuntimeError:  # the folder is not writable: compile in every process
        return _njit(function, **options)
    finally:
        _config.CACHE_DIR = before


def uncached_jit(function: Callable[..., Any], *, counts_references: bool = True) -> Any:
    """Compile a function that Python calls, in every process."""
    return _njit(function, pipeline_class=LinkingCompiler, _nrt=counts_references)


def is_cached(function: Any, signature: tuple[Any, ...]) -> bool:
    """Return whether the cache on disk has a function's code for types and for this processor."""
    cache: Any = getattr(function, "_cache", None)
    if not isinstance(cache, FunctionCache):
        return False
    cache = cast(Any, cache)
    key = cache._index_key(signature, function.targetctx.codegen())
    name = cache._cache_file._load_index().get(key)
    return name is not None and Path(cache.cache_path, name).is_file()


def _linked(function: Callable[..., Any], *, counts_references: bool) -> Any:
    options = {} if counts_references else {"pipeline_class": KernelCompiler}
    made = _njit(function, no_cpython_wrapper=True, _nrt=counts_references, **options)
    if isinstance(made, CPUDispatcher):  # else compilation is disabled
        made.__class__ = _Linked
    return made


def _njit(function: Callable[..., Any], **options: Any) -> Any:
    options["no_cfunc_wrapper"] = True
    return numba.njit(nogil=True, error_model="numpy", fastmath=_FAST, **options)(function)
