"""The settings of numba that apply to kernels, from the environment.

numba is imported when a kernel must be compiled, not before: that takes longer than most runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding

__all__ = [
    "IS_COMPILED",
    "Processor",
    "checks_bounds",
    "compiler_version",
    "n_threads",
    "processor",
]

#: A file of settings in the working directory, which numba reads if it is there.
_FILE = Path(".numba_config.yaml")


def _setting(name: str, kind: Callable[[str], Any], default: Any) -> Any:
    """Return a setting; the default if it is not set, or not of that kind, as numba does."""
    if _FILE.is_file():
        settings = vars(import_module("numba").config)
        value = settings[name] if name in settings else settings[name.removeprefix("NUMBA_")]
        return default if value is None else value
    try:
        return kind(os.environ[name])
    except (KeyError, ValueError):
        return default


#: Whether kernels are compiled, else they run as plain Python.
IS_COMPILED = not _setting("NUMBA_DISABLE_JIT", int, 0)


def checks_bounds() -> bool:
    """Return whether indices are checked."""
    return bool(_setting("NUMBA_BOUNDSCHECK", int, 0))


def n_threads() -> int:
    """Return the number of threads: one per processor that this process may use by default."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return max(1, int(_setting("NUMBA_NUM_THREADS", int, available)))


class Processor(NamedTuple):
    """The processor that kernels are compiled for: the host's, or the one in NUMBA_CPU_NAME.

    Parameters
    ----------
    name
        Its name in LLVM.
    features
        Its features beyond those that the name stands for; all of the host's if it is the host.
    """

    name: str
    features: str

    @property
    def description(self) -> str:
        """All that code depends on."""
        return f"{binding.get_process_triple()} {self.name} {self.features}"


@functools.cache
def processor() -> Processor:
    """Return the processor that kernels are compiled for.

    numba adds the features of the host to a processor that is named: its code would run on no
    other processor than the host. Here a name stands for itself.
    """
    name = _setting("NUMBA_CPU_NAME", str, None)
    features = _setting("NUMBA_CPU_FEATURES", str, "" if name else None)
    if features is None:
        result = binding.get_host_cpu_features()
        if not _setting("NUMBA_ENABLE_AVX", int, 1):
            result.update((feature, False) for feature in result if feature.startswith("avx"))
        features = result.flatten()
    return Processor(name or binding.get_host_cpu_name(), features)


@functools.cache
def compiler_version() -> bytes:
    """Return the file in which numba states its version."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'numba'", name="numba")
    return Path(spec.origin).with_name("_version.py").read_bytes()
