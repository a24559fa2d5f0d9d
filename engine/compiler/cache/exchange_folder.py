"""Exchanges on disk: those of earlier compilations of the same program, beside its plans."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilescope.engine.compiler.cache import plans
from tilescope.engine.compiler.cache.description import describe
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.cache.transfers import Arrays, arrays_of, transfers_of
from tilescope.engine.compiler.exchange.exchanges import STRUCTURE_BYTES, Exchanges
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.compiler.executable.container import NotAnEntry
from tilescope.engine.machine import Machine

__all__ = ["ExchangeFolder"]

#: Programs whose exchanges are kept beside the compiled kernels, some 10 MB.
_MOST_PROGRAMS = 256


class ExchangeFolder:
    """A directory with a file for every program, which holds the costs of all its exchanges.

    Parameters
    ----------
    directory
        Directory of the executable cache; if None, the folder of the compiled kernels, which keeps
        those of a bounded number of programs.

    Notes
    -----
    The exchanges of a file are found by their structure, so that a program whose key is the same
    by mistake takes longer to compile and is not compiled differently.
    """

    def __init__(self, directory: Path | str | None) -> None:
        self._folder = (
            CacheFolder(plans.memo_folder(), "exchanges", _MOST_PROGRAMS, is_requested=False)
            if directory is None
            else CacheFolder(directory, "exchanges")
        )

    def take(self, key: tuple[Any, ...], exchanges: Exchanges) -> None:
        """Give what an earlier compilation of a program costed to the exchanges of this one.

        Parameters
        ----------
        key
            What decides the program, besides the machine.
        exchanges
            Those of this compilation.
        """
        build = partial(_found, machine=exchanges.machine)
        known = self._folder.load(_described(key, exchanges), build)
        if known is not None:
            exchanges.know(known)

    def keep(self, key: tuple[Any, ...], exchanges: Exchanges) -> None:
        """Store the exchanges of a program, unless an earlier compilation had costed them all."""
        if not exchanges.n_costed:
            return
        known = exchanges.known
        moving = [transfer for transfer in known.values() if transfer is not None]
        facts, arrays = arrays_of(moving)
        arrays["structures"] = np.frombuffer(b"".join(known), np.uint8)
        arrays["moves"] = np.array([transfer is not None for transfer in known.values()], np.bool_)
        self._folder.store(_described(key, exchanges), facts, arrays)


def _described(key: tuple[Any, ...], exchanges: Exchanges) -> bytes:
    return describe(("exchanges", exchanges.machine, *key))


def _found(
    facts: Mapping[str, Any], arrays: Arrays, machine: Machine
) -> dict[bytes, Transfer | None]:
    try:
        moving = iter(transfers_of(facts, arrays, machine))
        structures = arrays["structures"].reshape(-1, STRUCTURE_BYTES)
        pairs = zip(structures, arrays["moves"].tolist(), strict=True)
        return {variables.tobytes(): next(moving) if moves else None for variables, moves in pairs}
    except (KeyError, ValueError, TypeError, IndexError, StopIteration) as error:
        raise NotAnEntry(f"a part is missing or malformed: {error}") from None
