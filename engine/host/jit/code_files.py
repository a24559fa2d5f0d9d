"""Files of compiled code, one per kernel and processor, in a folder of the cache.

numba's own cache does not compile a function again if the file of a function that it calls
changes, and takes code without checks of bounds when they are enabled. The name of the folder is a
digest of all kernel sources, numba's version and the settings that affect code; the name of a file
is that of the kernel, with a digest of its code and all values that it uses. The code is linked
into the process, so that a folder that another user may write to is not used.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from pathlib import Path
from typing import NamedTuple

import llvmlite
import platformdirs

from tilescope.engine.host.jit.settings import checks_bounds, compiler_version, processor
from tilescope.private_folder import NotPrivate, PrivateFolder, warn_once

__all__ = [
    "CHOICE",
    "FAST",
    "Code",
    "cache_folder",
    "folder_problem",
    "read",
    "source_digest",
    "write",
]

_log = logging.getLogger(__name__)

#: How to choose the folder.
CHOICE = "name another folder in NUMBA_CACHE_DIR"
# The same bits on any processor: no sum is reordered or fused with a product by the compiler, which
# would do so by the width of its vectors. Kernels that gain by it state their order themselves.
FAST = frozenset({"nsz"})
_ROOT = Path(__file__).parents[2]
_DIGEST_BYTES = 16
#: Far above any kernel's.
_LARGEST_BYTES = 64 << 20


class Code(NamedTuple):
    """The code of a kernel.

    Parameters
    ----------
    symbol
        Name of its function in the object code.
    machine_code
        Object code.
    """

    symbol: str
    machine_code: bytes


@functools.cache
def _engine_sources() -> tuple[Path, ...]:
    names = ("codelets", "compiler/kernels", "host", "intervals")
    folders = (_ROOT / name for name in names)
    return tuple(sorted(path for folder in folders for path in folder.rglob("*.py")))


def source_digest() -> str:
    """Return a digest of the sources of all kernels."""
    digest = hashlib.blake2b(digest_size=8)
    for path in _engine_sources():
        digest.update(path.read_bytes())
    digest.update(compiler_version())
    digest.update(repr((llvmlite.__version__, checks_bounds(), sorted(FAST))).encode())
    return digest.hexdigest()


@functools.cache
def cache_folder() -> Path:
    """Return the folder of this version's compiled kernels; it may not exist yet."""
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path(platformdirs.user_cache_dir("tilescope")) / "kernels"
    return root / source_digest()


def folder_problem() -> str:
    """Return why the folder of compiled kernels is not used, and what to do; empty if it is."""
    try:
        PrivateFolder(cache_folder()).names()
    except NotPrivate as error:
        return error.advice(CHOICE)
    except FileNotFoundError:  # made when the first kernel is compiled
        return ""
    except OSError as error:
        return f"{error.strerror}; {CHOICE}"
    return ""


@functools.cache
def _folder(_root: Path, _user: int) -> PrivateFolder:
    """Return the folder of the code for this processor, which is checked once."""
    description = processor().description.encode()
    digest = hashlib.blake2b(description, digest_size=8).hexdigest()
    return PrivateFolder(_root / digest)


def _own_folder() -> PrivateFolder:
    return _folder(cache_folder(), os.geteuid())


def _path(name: str) -> Path:
    """Return the file of a kernel's code for this processor."""
    return _own_folder().path / name


def read(name: str) -> Code | None:
    """Return a kernel's code for this processor; None if there is none, or its file is torn.

    A file that another user may have written is not used.
    """
    try:
        content = _own_folder().read(name, _LARGEST_BYTES)
    except NotPrivate as error:
        warn_once(error, "compiled kernels", CHOICE, _log)
        return None
    except OSError:
        return None
    digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    symbol, _, machine_code = rest.partition(b"\n")
    return Code(symbol.decode("ascii", "replace"), machine_code)


def write(name: str, code: Code) -> None:
    """Store the code of a kernel; without a private folder it is compiled in every process."""
    rest = code.symbol.encode() + b"\n" + code.machine_code
    digest = hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest()
    try:
        _own_folder().write(name, digest + rest)
    except NotPrivate as error:
        warn_once(error, "compiled kernels", CHOICE, _log)
    except OSError as error:
        _log.info("cannot store %s: %s", name, error.strerror)
