"""The exchanges around compute sets: all that later passes need of their pieces.

The pieces themselves, millions in a large program, are let go; what stays is a few values a tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.exchange import Addresses, Exchange, exchange_of
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
        Of the phase.
    variables
        Whose elements move, ascending.
    messages
        Buffers: of what is received where it comes in, of what is sent where it goes out.
    code_bytes
        Exchange code by tile.
    """

    cost: StepCost
    variables: tuple[int, ...]
    messages: Messages
    code_bytes: Column

    @classmethod
    def of(cls, exchange: Exchange, machine: Machine, *, is_input: bool) -> Transfer | None:
        """Return what an exchange comes to; None when nothing moves."""
        if exchange.is_empty:
            return None
        variables = np.unique(exchange.addresses.variable_of(exchange.start))
        return cls(
            exchange.cost(machine),
            tuple(variables.tolist()),
            _messages(exchange, exchange.receiver if is_input else exchange.sender),
            Column.of(exchange.code_bytes(machine)),
        )


@dataclass(frozen=True)
class Around:
    """The exchange before a compute set, and the one after it; None where nothing moves."""

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
    """Return the buffers that pieces of an exchange need on the tiles whose vertices use them.

    Parameters
    ----------
    exchange
        The pieces.
    tile : ndarray of int64, shape (n_pieces,)
        Where each piece is used: its receiver, or its sender when vertices made it.
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
