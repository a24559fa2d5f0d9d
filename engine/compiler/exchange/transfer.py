"""An exchange before or after a compute set, reduced to what later passes need.

The fragments themselves, millions in a large program, are dropped; a few values per tile remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.compact import compact
from tilescope.engine.compiler.exchange.code import exchange_code_bytes
from tilescope.engine.compiler.exchange.exchange import Exchange
from tilescope.engine.compiler.executable.messages import Messages
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.graph.freeze import altered
from tilescope.engine.machine import Machine

__all__ = ["Transfer"]


@dataclass(frozen=True)
class Transfer:
    """One exchange.

    Parameters
    ----------
    cost
        Cost of the phase.
    variables
        Ids of the variables whose elements move, ascending.
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
        """Return the summary of an exchange; None when nothing moves.

        Variables are numbered as the exchange's addresses number them.
        """
        if exchange.is_empty:
            return None
        variables = np.flatnonzero(np.bincount(exchange.variable))
        schedule = exchange.schedule(machine)
        return cls(
            exchange.cost(machine, schedule),
            tuple(variables.tolist()),
            _messages(exchange, exchange.receiver if is_input else exchange.sender),
            Column.of(exchange_code_bytes(exchange, schedule, machine)),
        )

    def on(self, ids: NDArray[np.int64]) -> Transfer:
        """Return the same exchange on other variables.

        Parameters
        ----------
        ids : ndarray of int64, shape (n_variables,)
            Id of each variable, by the id that it has here; ascending.
        """
        messages = altered(self.messages, variable_id=compact(ids[self.messages.variable_id]))
        variables = tuple(ids[list(self.variables)].tolist())
        return altered(self, variables=variables, messages=messages)


def _messages(exchange: Exchange, tile: NDArray[np.int64]) -> Messages:
    """Return the buffers for an exchange's fragments, on the tiles whose vertices use them.

    Parameters
    ----------
    exchange
        The fragments.
    tile : ndarray of int64, shape (n_fragments,)
        Tile that uses each fragment: its receiver, or its sender when vertices produced it.
    """
    n_variables = exchange.addresses.item_bytes.size
    key = tile * n_variables + exchange.variable
    n_bytes = exchange.n_bytes
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, n_bytes = key[order], n_bytes[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    total = np.add.reduceat(n_bytes, first)
    return Messages.of(key[first] % n_variables, key[first] // n_variables, total)
