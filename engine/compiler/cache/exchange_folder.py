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
        self._folder, self._last = (
            CacheFolder(plans.memo_folder(), kind, _MOST_PROGRAMS, is_requested=False)
            if directory is None
            else CacheFolder(directory, kind)
            for kind in ("exchanges", "last")
        )
        self._is_new = True

    def take(self, key: tuple[Any, ...], near: tuple[Any, ...], exchanges: Exchanges) -> None:
        """Give what an earlier compilation costed to the exchanges of this one.

        Parameters
        ----------
        key
            What decides the program, besides the machine.
        near
            What an edited program has in common with it: where the program is new, exchanges of
            the last one of the same kind are given.
        exchanges
            Those of this compilation.
        """
        build = partial(_found, machine=exchanges.machine)
        own = _described(key, exchanges)
        known = self._folder.load(own, build)
        self._is_new = known is None
        if known is None:
            last = self._last.load(_described(near, exchanges), _last)
            known = None if last in (None, own) else self._folder.load(last, build)
        if known is not None:
            exchanges.know(known)

    def keep(self, key: tuple[Any, ...], near: tuple[Any, ...], exchanges: Exchanges) -> None:
        """Store the exchanges of a program, unless its file has them all.

        Parameters
        ----------
        key, near, exchanges
            As for `take`, which came before.
        """
        if not exchanges.n_costed and not self._is_new:
            return
        used = {s: transfer for s, transfer in exchanges.known.items() if s in exchanges.used}
        facts, arrays = arrays_of([transfer for transfer in used.values() if transfer is not None])
        arrays["structures"] = np.frombuffer(b"".join(used), np.uint8)
        arrays["moves"] = np.array([transfer is not None for transfer in used.values()], np.bool_)
        description = _described(key, exchanges)
        self._folder.store(description, facts, arrays)
        last = {"description": description.decode()}
        self._last.store(_described(near, exchanges), last, {})


def _last(facts: Mapping[str, Any], _: Arrays) -> bytes:
    """Return the description of the last program of a kind."""
    return str(facts["description"]).encode()


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
