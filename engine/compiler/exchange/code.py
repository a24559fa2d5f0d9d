"""Exchange code: the instructions with which tiles send runs of memory and receive them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.intervals.runs import order_by_tile

if TYPE_CHECKING:
    from tilescope.engine.compiler.exchange.exchange import Exchange
    from tilescope.engine.compiler.exchange.sends import Schedule
    from tilescope.engine.machine import Machine

__all__ = ["exchange_code_bytes"]

#: The exchange moves words of this many bytes.
_WORD_BYTES = 4

#: Words that one continuation of a send carries.
_CONTINUED_WORDS = 4096  # Source: osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE: `sendoff`

Ids = NDArray[np.int64]


def exchange_code_bytes(exchange: Exchange, schedule: Schedule, machine: Machine) -> Ids:
    """Return the exchange code of each tile: ndarray of int64, shape (n_tiles,), bytes.

    Parameters
    ----------
    exchange, schedule
        What moves, and when.
    machine
        Source of the sizes of instructions.

    Notes
    -----
    A tile that takes part has a fixed overhead. A receiver sets source and pointer whenever it
    listens to another tile, and the pointer alone where the next piece of its buffer is to be
    filled. A buffer is in the order of the elements; a piece comes from one tile.
    A sender sends what is contiguous in its memory in one run, whoever receives which part:
    receivers select the words at their times. A run has one instruction, and one per continuation.
    Source: osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE: a sent word has no destination,
    `sendoff` continues a send, `sendpicp` (two words) sets source and pointer, `delaypic` (one
    word) the pointer.
    """
    n_tiles = machine.n_tiles
    _, sender, receiver = exchange.in_order
    is_piece = np.ones(sender.size, dtype=np.bool_)
    is_piece[1:] = (sender[1:] != sender[:-1]) | (receiver[1:] != receiver[:-1])
    n_fragments = np.bincount(receiver[is_piece], minlength=n_tiles)
    sources = schedule.sources
    pointers = np.maximum(n_fragments - sources, 0)
    tile, words = _sent_runs(exchange)
    further = np.maximum(words - machine.exchange_words_per_send, 0)
    per_run = 1 + -(-further // _CONTINUED_WORDS)
    sends = np.bincount(tile, per_run, n_tiles).astype(np.int64)
    return np.where(
        sources + sends > 0,
        machine.exchange_code_bytes_per_phase
        + sources * machine.exchange_code_bytes_per_source
        + pointers * machine.exchange_code_bytes_per_pointer
        + sends * machine.exchange_code_bytes_per_send,
        0,
    )


def _sent_runs(exchange: Exchange) -> tuple[Ids, Ids]:
    """Return the runs that are sent, contiguous in the sender's memory: tile and words of each."""
    tile, start, length = exchange.sent_runs
    n_bytes = exchange.addresses.bytes_of(start, length)
    address = exchange.addresses.places_of(tile, start)
    order = order_by_tile(tile, address)
    tile, address, length, n_bytes = (c[order] for c in (tile, address, length, n_bytes))
    is_new = np.ones(tile.size, dtype=np.bool_)
    is_new[1:] = (tile[1:] != tile[:-1]) | (address[1:] != address[:-1] + length[:-1])
    first = np.flatnonzero(is_new)
    total = np.add.reduceat(n_bytes, first) if first.size else n_bytes
    return tile[first], -(-total // _WORD_BYTES)
