"""The process that loads batches into slots."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from poptorch._logging import logger
from poptorch.dataloader.slots import END, BatchForm, Slots
from poptorch.errors import createPoptorchError
from poptorch.trees import flatten, map_tensors

__all__ = ["PRELOADED", "RESTART", "START", "STOP", "Loading", "load_batches"]

#: What a process without a start of its own has to import.
PRELOADED = ["torch", "poptorch.dataloader"]

#: What the reader sends: begin to load, load the data from their start again, end.
START, RESTART, STOP = "start", "restart", "stop"

#: Time between two looks at what the reader sent, in seconds.
_WAIT_S = 0.02


@dataclass
class Loading:
    """What a process loads, and how.

    Parameters
    ----------
    dataset
        What is iterated over, or the path of a file that has it pickled.
    slots
        Where batches go.
    is_repeated
        Whether the data are loaded again when they end, before somebody asks for it.
    is_early
        Whether to load before somebody asks.
    combined_size
        Entries of the batches that are handed over; None for those of the dataset.
    drops_last
        Whether a combined batch that the data do not fill is left out.
    wait_s
        Time between two looks for a free slot, in seconds.
    """

    dataset: Any
    slots: Slots
    is_repeated: bool
    is_early: bool
    combined_size: int | None
    drops_last: bool
    wait_s: float = field(default=_WAIT_S)


class _Stopped(Exception):  # not an error
    """The reader wants the process to end."""


class _Restarted(Exception):  # not an error
    """The reader wants the data from their start."""


def load_batches(loading: Loading, data: Connection, commands: Connection) -> None:
    """Load batches until the reader ends the process, or ends itself.

    Parameters
    ----------
    loading
        What is loaded.
    data
        Takes the form of batches, once.
    commands
        What the reader sends.
    """
    logger.debug("process %d loads batches", os.getpid())
    # Workers of the data's own loader start as this process did: with these modules.
    multiprocessing.set_forkserver_preload(PRELOADED)
    try:
        _Writer(loading, commands).run(data)
    except (_Stopped, KeyboardInterrupt, EOFError, BrokenPipeError):
        logger.debug("process %d ends", os.getpid())


class _Writer:
    """Fills slots."""

    def __init__(self, loading: Loading, commands: Connection) -> None:
        self._loading, self._slots, self._commands = loading, loading.slots, commands
        self._buffers: list[torch.Tensor] = []
        self._next = self._generation = self._n_started = 0

    def run(self, data: Connection) -> None:
        """Load all batches.

        Raises
        ------
        Error
            When there are no data.
        """
        loading = self._loading
        dataset = loading.dataset
        if isinstance(dataset, Path):
            dataset = pickle.loads(dataset.read_bytes())
        batches = _batches(dataset, loading)
        first = next(batches, None)
        if first is None:
            raise createPoptorchError("The Dataset is empty")
        self._allocate(*first, data)
        pending: tuple[Any, int] | None = first
        is_waiting = not loading.is_early
        while True:
            try:
                if pending is not None:
                    self._write(*pending)
                if is_waiting:
                    self._wait_for_start()
                    is_waiting = False
                for batch, size in batches:
                    self._write(batch, size)
                self._write(None, END)
                is_waiting = not loading.is_repeated
            except _Restarted:
                is_waiting = False
            pending, batches = None, _batches(dataset, loading)

    def _allocate(self, batch: Any, size: int, data: Connection) -> None:
        """Make the buffers of all slots for batches of a form, and tell the reader.

        Raises
        ------
        Error
            When a batch has something else than tensors.
        """
        del size
        n_slots, rows = len(self._slots), self._loading.combined_size
        items = batch if isinstance(batch, (list, tuple)) else []
        for index, item in enumerate(items):
            if not flatten(item):
                raise createPoptorchError(
                    f"Tensor at index {index} is not a torch tensor ({type(item)}): a batch has"
                    " tensors only"
                )
        for tensor in flatten(batch):
            shape = (n_slots, *(tensor.shape if rows is None else (rows, *tensor.shape[1:])))
            self._buffers.append(torch.zeros(shape, dtype=tensor.dtype).share_memory_())
        data.send(BatchForm(map_tensors(lambda t: t.new_empty(0), batch), self._buffers))

    def _write(self, batch: Any, size: int) -> None:
        """Hand a batch to the reader, when a slot is free."""
        while not self._slots.free.acquire(timeout=self._loading.wait_s):
            self._look()
        try:
            self._look()
        except _Restarted:
            self._slots.free.release()
            raise
        for buffer, tensor in zip(self._buffers, flatten(batch), strict=size != END):
            if self._loading.combined_size is None:
                buffer[self._next].copy_(tensor)
            else:
                buffer[self._next][: len(tensor)].copy_(tensor)
        self._slots.fill(self._next, size, self._generation)
        self._next = (self._next + 1) % len(self._slots)

    def _look(self) -> None:
        """See what the reader sent."""
        while self._commands.poll():
            self._take(self._commands.recv())

    def _take(self, command: str) -> None:
        if command == STOP:
            raise _Stopped
        if command == RESTART:
            self._generation += 1
            self._n_started = 0
            raise _Restarted
        self._n_started += 1

    def _wait_for_start(self) -> None:
        self._look()
        while not self._n_started:
            self._take(self._commands.recv())
        self._n_started = 0


def _batches(dataset: Any, loading: Loading) -> Iterator[tuple[Any, int]]:
    """Return the batches to hand over, with their numbers of entries."""
    rows = loading.combined_size
    if rows is None:
        for batch in dataset:
            yield batch, 1
        return
    parts: list[Any] = []
    n_parts = 0
    for batch in dataset:
        tensors = flatten(batch)
        taken, n_rows = 0, len(tensors[0])
        while taken < n_rows:
            count = min(rows - n_parts, n_rows - taken)
            parts.append(map_tensors(_rows(taken, count), batch))
            taken, n_parts = taken + count, n_parts + count
            if n_parts == rows:
                yield _joined(parts), rows
                parts, n_parts = [], 0
    if parts and not loading.drops_last:
        yield _joined(parts), n_parts


def _rows(first: int, count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor[first : first + count]


def _joined(parts: list[Any]) -> Any:
    """Return batches as one."""
    columns = iter(zip(*(flatten(part) for part in parts), strict=True))
    return map_tensors(lambda _: torch.cat(next(columns)), parts[0])
