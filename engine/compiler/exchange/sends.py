"""The sends of an exchange and when they begin: an exchange is a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.kernels.send_schedule import schedule_of_sends
from tilescope.engine.compiler.kernels.sends import parts_of_fragments
from tilescope.engine.intervals.runs import order_by_tile
from tilescope.engine.machine import Machine
from tilescope.engine.machine.exchange_law import bus_cycles

__all__ = ["Parts", "Schedule", "Sends"]

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Parts of fragments, each with one set of receivers; a send joins those of one set.

    Parameters
    ----------
    sender, start, n_bytes : ndarray of int64, shape (n_parts,)
        Tile, first element and size, sorted by tile and element.
    send : ndarray of int64, shape (n_parts,)
        Number of the send; sends are numbered by their first parts.
    first : ndarray of int64, shape (n_parts + 1,)
        Place of each part's first receiver.
    receiver : ndarray of int64, shape (n_receipts,)
        Tiles that receive each part.
    """

    sender: Ids
    start: Ids
    n_bytes: Ids
    send: Ids
    first: Ids
    receiver: Ids

    @classmethod
    def of(cls, sender: Ids, receiver: Ids, start: Ids, length: Ids, n_bytes: Ids) -> Parts:
        """Cut fragments where their sets of receivers change.

        Parameters
        ----------
        sender, receiver, start, length, n_bytes : ndarray of int64, shape (n_fragments,)
            Tiles, elements and bytes of fragments.
        """
        order = order_by_tile(sender, start)
        return cls.of_ordered(*(c[order] for c in (sender, receiver, start, length, n_bytes)))

    @classmethod
    def of_ordered(cls, sender: Ids, receiver: Ids, start: Ids, length: Ids, n_bytes: Ids) -> Parts:
        """Cut fragments that are sorted by sender and first element; see `of`."""
        return cls(*parts_of_fragments(sender, start, length, n_bytes, receiver))


@dataclass(frozen=True)
class Sends:
    """What tiles send: each send goes from one tile to a set of tiles, which all listen.

    Parameters
    ----------
    sender : ndarray of int64, shape (n_sends,)
        Tile.
    lane : ndarray of int64, shape (n_sends,)
        Tile whose transmit lane a send of double words uses as well, or -1.
    cycles : ndarray of int64, shape (n_sends,)
        Duration.
    first : ndarray of int64, shape (n_sends + 1,)
        Place of each send's first receiver.
    receiver : ndarray of int64, shape (n_receipts,)
        Tiles that receive each send.
    """

    sender: Ids
    lane: Ids
    cycles: Ids
    first: Ids
    receiver: Ids

    @classmethod
    def of(cls, parts: Parts, machine: Machine, partner: Ids | None = None) -> Sends:
        """Join the parts that a tile sends to the same tiles.

        Parameters
        ----------
        parts
            What is sent.
        machine
            Source of the rates.
        partner : ndarray of int64, shape (n_tiles,), optional
            The other tile of every tile's pair, if both receive every part. The sender uses its own
            partner's lane as well.
        """
        n_sends = int(parts.send.max(initial=-1)) + 1
        example = np.empty(n_sends, np.int64)
        example[parts.send[::-1]] = np.arange(parts.send.size)[::-1]  # the first part of each
        n_bytes = np.bincount(parts.send, parts.n_bytes, example.size)
        begins, sizes = parts.first[example], parts.first[example + 1] - parts.first[example]
        receiver, sender = parts.receiver[_ranges(begins, sizes)], parts.sender[example]
        lane = np.full_like(sender, -1)
        if partner is not None:
            lane, sizes = partner[sender], 2 * sizes
            receiver = np.stack([receiver, partner[receiver]], axis=1).reshape(-1)
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        is_paired = partner is not None
        cycles = bus_cycles(0, machine, n_bytes) if is_paired else bus_cycles(n_bytes, machine)
        return cls(sender, lane, cycles, first, receiver)

    def and_then(self, later: Sends) -> Sends:
        """Return these sends and others."""
        sender, lane, cycles, receiver = (
            np.concatenate([getattr(self, name), getattr(later, name)])
            for name in ("sender", "lane", "cycles", "receiver")
        )
        first = np.append(self.first, later.first[1:] + self.first[-1])
        return Sends(sender, lane, cycles, first, receiver)


@dataclass(frozen=True)
class Schedule:
    """When each send begins: no tile sends or receives two things at a time.

    Parameters
    ----------
    sends
        What is sent.
    begin : ndarray of int64, shape (n_sends,)
        Cycles from the first payload.
    received_at, sent_at : ndarray of int64, shape (n_tiles,)
        Cycles from the first payload until each tile has received all and sent all; 0 for a tile
        that has nothing to receive or to send.
    sources : ndarray of int64, shape (n_tiles,)
        How often each tile sets the tile that it listens to.
    """

    sends: Sends
    begin: Ids
    received_at: Ids
    sent_at: Ids
    sources: Ids

    @classmethod
    def of(cls, sends: Sends, n_tiles: int) -> Schedule:
        """Let tiles send as soon as they and their receivers are free.

        Notes
        -----
        A list schedule. Preferred are sends whose tiles have most to send and receive in all, then
        those with most receivers, then the longest.
        Source: osmarks/ipu-stack, crates/ipu-codegen/src/exchange.rs (2026-08-17), the first
        schedule of a phase: transfers as soon as their tiles are free, by endpoint pressure,
        fan-out and words. What it tries afterwards to shorten it is not done here.
        """
        size = np.diff(sends.first)
        offset = np.repeat(np.arange(size.size), size)
        load = np.bincount(sends.sender, sends.cycles, n_tiles)
        load += np.bincount(sends.receiver, sends.cycles[offset], n_tiles)
        pressure = load[sends.sender] + np.bincount(offset, load[sends.receiver], size.size)
        order = np.lexsort((-sends.cycles, -size, -pressure, sends.sender))
        first_of_tile = np.zeros(n_tiles + 1, np.int64)
        np.cumsum(np.bincount(sends.sender, minlength=n_tiles), out=first_of_tile[1:])
        columns = sends.lane, sends.cycles, sends.first, sends.receiver, order, first_of_tile
        return cls(sends, *schedule_of_sends(*columns))


def _ranges(begins: Ids, sizes: Ids) -> Ids:
    """Return begin, begin + 1, … of every range, one after the other: ndarray of int64."""
    if (sizes == 1).all():
        return begins
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(begins - ends + sizes, sizes)
