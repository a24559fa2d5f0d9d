"""The exchanges around compute sets, reduced to what later passes need.

The fragments themselves, millions in a large program, are dropped; a few values per tile remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.exchange import Exchange, exchange_of
from tilescope.engine.compiler.exchange_code import exchange_code_bytes
from tilescope.engine.compiler.messages import Messages
from tilescope.engine.compiler.step_cost import StepCost
from tilescope.engine.graph import ComputeSet
from tilescope.engine.machine import Machine

__all__ = ["Around", "Transfer", "around"]


@dataclass(frozen=True)
class Transfer:
    """One exchange.

    Parameters
    ----------
    cost
        Cost of the phase.
    variables
        Variables whose elements move, ascending.
    messages
        Buffers for what an input exchange receives, or for what an output exchange sends.
    code_bytes
        Exchange code by tile.
    """

    cost: StepCost
    variables: tuple[int, ...]
    messages: Messages
    code_bytes: Column

    @classmethod
    def of(cls, exchange: Exchange, machine: Machine, *, is_input: bool) -> Transfer | None:
        """Return the summary of an exchange; None when nothing moves."""
        if exchange.is_empty:
            return None
        variables = np.unique(exchange.addresses.variable_of(exchange.start))
        schedule = exchange.schedule(machine)
        return cls(
            exchange.cost(machine, schedule),
            tuple(variables.tolist()),
            _messages(exchange, exchange.receiver if is_input else exchange.sender),
            Column.of(exchange_code_bytes(exchange, schedule, machine)),
        )


@dataclass(frozen=True)
class Around:
    """The exchanges before and after a compute set; None where nothing moves."""

    before: Transfer | None
    after: Transfer | None


def around(compute_set: ComputeSet, addresses: Addresses, machine: Machine) -> Around:
    """Return the exchanges around a compute set."""
    before, after = (
        Transfer.of(
            exchange_of([compute_set], addresses, is_input=is_input), machine, is_input=is_input
        )
        for is_input in (True, False)
    )
    return Around(before, after)


def _messages(exchange: Exchange, tile: NDArray[np.int64]) -> Messages:
    """Return the buffers for an exchange's fragments, on the tiles whose vertices use them.

    Parameters
    ----------
    exchange
        The fragments.
    tile : ndarray of int64, shape (n_fragments,)
        Tile that uses each fragment: its receiver, or its sender when vertices produced it.
    """
    variable = exchange.addresses.variable_of(exchange.start)
    n_variables = exchange.addresses.item_bytes.size
    key = tile * n_variables + variable
    n_bytes = exchange.n_bytes
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, n_bytes = key[order], n_bytes[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    total = np.add.reduceat(n_bytes, first)
    return Messages(key[first] % n_variables, key[first] // n_variables, total)
