"""The one place where numba is set up: how kernels are compiled and where they are cached.

A cached function that calls another is not compiled anew when the other's file changes, and a
cache filled without bounds checks is used with them. Both are avoided by keying the folder of
the cache with the sources of all kernels, numba's version and the settings that change code.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import platformdirs

__all__ = ["cache_folder", "cached_jit", "jit", "source_digest"]

# NaN and infinity keep their meaning; only the order of sums and products may change.
_FAST = {"nsz", "arcp", "contract", "reassoc"}
#: numba fills this module when it is imported.
_config: Any = numba.config
_ROOT = Path(__file__).parent.parent


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
    digest.update(repr((numba.__version__, _config.BOUNDSCHECK)).encode())
    return digest.hexdigest()


@functools.cache
def cache_folder() -> Path:
    """Return the folder of this version's compiled kernels; it may not exist yet."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path(platformdirs.user_cache_dir("tilescope")) / "kernels"
    return root / source_digest()


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that is only called by other compiled code."""
    return numba.njit(nogil=True, error_model="numpy", fastmath=_FAST)(function)


def cached_jit(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep the code for the next process."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_folder())
    try:
        return numba.njit(nogil=True, error_model="numpy", fastmath=_FAST, cache=True)(function)
    except RuntimeError:  # the folder cannot be written: compile every time
        return jit(function)
    finally:
        _config.CACHE_DIR = before
