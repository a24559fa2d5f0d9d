"""Plans of the loss of alignments: sequences, steps and classes of labels split over tiles.

Steps are done one by one, so that parts of the steps take turns: two of them save half the time, by
computing from both ends; more save memory.
Source: graphcore/poplibs sdk-release-3.4, lib/popnn/CTCLossPlan.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popnn.ctc_loss import (
    COLUMN_CYCLES,
    EXTRA_BLANK_CYCLES,
    GRADIENT_COLUMN_CYCLES,
    GRADIENT_EXTRA_BLANK_CYCLES,
)
from tilescope.engine.machine import Machine
from tilescope.engine.machine.exchange_law import bus_cycles
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION

__all__ = ["CTC_SPLIT", "CtcLossPlan", "CtcShape", "plan_alignments"]

Counts = NDArray[np.int64]

#: What a plan may be told, by name.
CTC_SPLIT = ("batch", "steps", "label", "last_blank_apart")
#: Cycles of a step's exchange, without what it moves, and of its sync. Source: CTCLossPlan.cpp
_EXCHANGE_CYCLES, _SYNC_CYCLES = 100, 90
#: Bytes of a class in the estimate of memory. Source: the same
_LABEL_BYTES = 2


@dataclass(frozen=True)
class CtcShape:
    """Sizes of a loss of alignments.

    Parameters
    ----------
    n_batch, n_steps, longest, n_classes
        Sequences, steps of the longest one, classes of the longest label, and all classes.
    item_bytes, partial_bytes
        Bytes of a probability, and of a partial result.
    """

    n_batch: int
    n_steps: int
    longest: int
    n_classes: int
    item_bytes: int
    partial_bytes: int


@dataclass(frozen=True)
class CtcLossPlan:
    """How the alignments are split over tiles.

    Tile ``(b × steps + s) × label_tiles + l`` holds part b of the sequences, s of the steps and l
    of the label.

    Parameters
    ----------
    shape
        What the plan is for.
    batch, steps, label
        Number of parts.
    last_blank_apart
        Whether the blank after the last class has a tile of its own.
    cycles
        Predicted cycles of the loops.
    temporary_bytes
        Predicted bytes of what comes and goes on a tile.
    available_memory_proportion
        Largest share of a tile that these may take, 0 to 1.
    """

    shape: CtcShape
    batch: int
    steps: int
    label: int
    last_blank_apart: bool
    cycles: int
    temporary_bytes: int
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION

    @property
    def label_tiles(self) -> int:
        """Tiles along the label."""
        return self.label + self.last_blank_apart

    @property
    def n_tiles(self) -> int:
        """Number of tiles, one per part."""
        return self.batch * self.steps * self.label_tiles

    @property
    def alpha_parts(self) -> int:
        """Parts of the steps that are computed from the first step on."""
        return -(-self.steps // 2)

    @property
    def batch_part(self) -> Counts:
        """Part of every sequence: ndarray of int64, shape (n_batch,)."""
        return np.arange(self.shape.n_batch) // -(-self.shape.n_batch // self.batch)

    @property
    def step_edges(self) -> Counts:
        """Starts of the parts of steps, and the end: ndarray of int64, shape (steps + 1,)."""
        return _edges(self.shape.n_steps, self.steps)

    @property
    def label_edges(self) -> Counts:
        """Starts of the parts of labels, and the end: ndarray of int64, shape (label_tiles + 1,).

        The part of a blank alone has no classes.
        """
        edges = _edges(self.shape.longest, self.label)
        return np.append(edges, self.shape.longest) if self.last_blank_apart else edges

    @property
    def state_edges(self) -> Counts:
        """Starts of the parts of states, and the end: ndarray of int64, shape (label_tiles + 1,).

        A class has a blank before it; the last part has one after it.
        """
        edges = 2 * self.label_edges
        edges[-1] += 1
        return edges

    def detail(self) -> dict[str, int | bool]:
        """Return what a debug context states."""
        return {name: getattr(self, name) for name in CTC_SPLIT}


def _edges(size: int, n_parts: int) -> Counts:
    width = -(-size // n_parts)
    return np.minimum(np.arange(n_parts + 1, dtype=np.int64) * width, size)


class _Splits(NamedTuple):
    """Splits, as columns."""

    batch: Counts
    steps: Counts
    label: Counts
    last_blank_apart: Counts

    def where(self, is_kept: NDArray[np.bool_]) -> _Splits:
        """Return some of them."""
        return _Splits(*(column[is_kept] for column in self))

    @property
    def n_tiles(self) -> Counts:
        """Tiles of every split."""
        return np.asarray(self.batch * self.steps * (self.label + self.last_blank_apart))


@lru_cache(maxsize=256)
def plan_alignments(
    shape: CtcShape,
    machine: Machine,
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
    split: tuple[tuple[str, int], ...] = (),
) -> CtcLossPlan | None:
    """Return the split of fewest cycles, then of least memory, then of fewest tiles.

    Parameters
    ----------
    shape
        Sizes.
    machine
        The tiles.
    available_memory_proportion
        Largest share of a tile for temporary data.
    split
        Counts that are given, by the names of `CTC_SPLIT`.

    Returns
    -------
    CtcLossPlan | None
        None if no split fits.
    """
    splits = _splits(shape, machine.n_tiles, dict(split))
    n_bytes = _temporary_bytes(shape, splits)
    fits = n_bytes <= available_memory_proportion * machine.bytes_per_tile
    if not fits.any():
        return None
    splits, n_bytes = splits.where(fits), n_bytes[fits]
    cycles = _cycles(shape, splits, machine)
    best = int(np.lexsort((splits.n_tiles, n_bytes, cycles))[0])
    batch, steps, label, apart = (int(column[best]) for column in splits)
    return CtcLossPlan(
        shape,
        batch,
        steps,
        label,
        bool(apart),
        int(cycles[best]),
        int(n_bytes[best]),
        available_memory_proportion,
    )


def _splits(shape: CtcShape, n_tiles: int, given: Mapping[str, int]) -> _Splits:
    """Return all splits over the tiles that leave no part empty."""

    def counts(name: str, size: int) -> Counts:
        parts = np.arange(1, min(size, n_tiles) + 1, dtype=np.int64)
        parts = parts[-(-size // parts) * (parts - 1) < size]
        return parts[parts == given[name]] if name in given else parts

    apart = np.array([given["last_blank_apart"]] if "last_blank_apart" in given else [0, 1])
    columns = np.meshgrid(
        counts("batch", shape.n_batch),
        counts("steps", shape.n_steps),
        counts("label", shape.longest),
        apart,
        indexing="ij",
    )
    splits = _Splits(*(column.reshape(-1) for column in columns))
    return splits.where(splits.n_tiles <= n_tiles)


def _cycles(shape: CtcShape, splits: _Splits, machine: Machine) -> Counts:
    """Return the cycles of both loops, by split."""
    n_turns = -(-shape.n_steps // splits.steps) * (-(-splits.steps // 2))
    n_workers = machine.n_worker_contexts
    n_sequences = -(-shape.n_batch // splits.batch)
    n_together = -(-n_sequences // n_workers)
    n_labels = -(-shape.longest // splits.label)
    is_even = n_labels * splits.label == shape.longest
    has_extra = is_even & (splits.last_blank_apart == 0)
    alone = n_workers * (n_labels * COLUMN_CYCLES + has_extra * EXTRA_BLANK_CYCLES)
    with_gradient = n_workers * (
        n_labels * GRADIENT_COLUMN_CYCLES + has_extra * GRADIENT_EXTRA_BLANK_CYCLES
    )
    ends = np.where(splits.label > 1, 2, 0)
    columns = np.where(splits.steps > 2, n_labels + ends, 0)
    exchanged, with_both = (
        _EXCHANGE_CYCLES + bus_cycles(n_elements * shape.partial_bytes, machine)
        for n_elements in (columns + ends, 2 + 4 * n_labels)
    )
    step = alone + with_gradient + exchanged + with_both + 2 * _SYNC_CYCLES
    return np.asarray(step * n_turns * n_together)


def _temporary_bytes(shape: CtcShape, splits: _Splits) -> Counts:
    """Return the bytes on the fullest tile, by split."""
    n_batch = -(-shape.n_batch // splits.batch)
    n_steps = -(-shape.n_steps // splits.steps)
    n_labels = -(-shape.longest // splits.label)
    n_states = 2 * n_labels + (n_labels * splits.label == shape.longest)
    rows = n_batch * n_steps * shape.n_classes
    has_parts = splits.label + splits.last_blank_apart > 1
    probabilities = rows * shape.item_bytes
    gradients = rows * shape.partial_bytes * (1 + has_parts)
    columns = n_batch * n_states * 4 * shape.partial_bytes  # one of alphas or betas, three between
    return np.asarray(probabilities + n_batch * n_labels * _LABEL_BYTES + gradients + columns)
