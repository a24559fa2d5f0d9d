"""Reads the batches that a process of its own loads."""

from __future__ import annotations

import multiprocessing
import pickle
import tempfile
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext, ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch.multiprocessing  # registers how tensors reach another process

from poptorch.dataloader.slots import END, BatchForm, Slots
from poptorch.dataloader.worker import (
    PRELOADED,
    RESTART,
    START,
    STOP,
    Loading,
    load_batches,
)
from poptorch.enums import SharingStrategy
from poptorch.errors import createPoptorchError
from poptorch.trees import rebuild

__all__ = ["AsynchronousDataAccessor"]

_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}

#: Time that a process has to end before it is killed, in seconds.
_PATIENCE_S = 10.0

#: Time between two looks whether the process still runs, in seconds.
_LOOK_S = 0.2


class _Reader:
    """The reader's end of a process that loads batches.

    Parameters
    ----------
    loading
        What it loads.
    context
        How the process starts.
    """

    def __init__(self, loading: Loading, context: BaseContext) -> None:
        received, data = context.Pipe(duplex=False)
        taken, self._commands = context.Pipe(duplex=False)
        self._data_buffers = _Buffers(loading.slots)
        self._process = context.Process(  # type: ignore[attr-defined]
            target=load_batches, args=(loading, data, taken)
        )
        self._process.start()
        data.close()
        taken.close()
        self._ending = Finalize(self, _end, (self._process, self._commands), exitpriority=100)
        try:
            self._form: BatchForm = received.recv()
        except EOFError:
            self.terminate()
            raise createPoptorchError(
                "AsynchronousDataAccessor worker thread failed to start (Check above for details)"
            ) from None
        self._is_repeated = loading.is_repeated
        self._combines = loading.combined_size is not None
        self._slots, self._next, self._held = loading.slots, 0, -1
        self._generation, self._is_used, self._is_over = 0, False, False
        self._is_started = False

    def terminate(self) -> None:
        """End the process."""
        self._ending()

    def restart(self) -> None:
        """Begin with the data's first batch."""
        self.release()
        if self._is_used and not self._is_over:
            self._generation += 1
            self._commands.send(RESTART)
        elif not self._is_started or (self._is_over and not self._is_repeated):
            self._commands.send(START)
        self._is_started, self._is_used, self._is_over = True, False, False

    def release(self) -> None:
        """Free the slot of the last batch."""
        if self._held >= 0:
            self._slots.empty(self._held)
            self._held = -1

    def take(self) -> Any:
        """Return the next batch; None at the end of the data.

        Raises
        ------
        Error
            When the process failed.
        """
        self.release()
        while not self._is_over:
            if not self._slots.full.acquire(timeout=_LOOK_S):
                if self._process.is_alive():
                    continue
                if not self._slots.full.acquire(block=False):
                    raise createPoptorchError("An error occurred in the data fetcher")
            index, self._next = self._next, (self._next + 1) % len(self._slots)
            if self._slots.generations[index] != self._generation:
                self._slots.empty(index)
                continue
            self._is_used = True
            size = int(self._slots.sizes[index])
            if size == END:
                self._slots.empty(index)
                self._is_over = True
                return None
            self._held = index
            return self._batch(index, size)
        return None

    def _batch(self, index: int, size: int) -> Any:
        tensors = [buffer[index] for buffer in self._form.buffers]
        if self._combines:
            tensors = [tensor[:size] for tensor in tensors]
        return rebuild(self._form.structure, iter(tensors))


class _Buffers:
    """The slots of a reader, as programs that look into it name them."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    @property
    def indices_mem(self) -> torch.Tensor:
        """Whether slots are full: bool, shape (n_slots,)."""
        return self._slots.is_full


def _end(process: BaseProcess, commands: Connection) -> None:
    """End a process; kill it if it does not."""
    if process.is_alive():
        with suppress(OSError):  # it ended meanwhile
            commands.send(STOP)
    process.join(_PATIENCE_S)
    if process.is_alive():
        process.terminate()
        process.join(_PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
    commands.close()


class AsynchronousDataAccessor:
    """Loads the batches of a data set in another process, while a model runs.

    Parameters
    ----------
    dataset
        What yields batches: a `DataLoader`, or whatever is iterated over.
    buffer_size
        Batches that wait for the reader.
    miss_sleep_time_in_ms
        Time between two looks for a free slot.
    load_indefinitely
        Whether the data are loaded again when they end, before somebody asks for it.
    early_preload
        Whether to load before the first iteration.
    sharing_strategy
        How the data set reaches the process.
    rebatched_size
        Entries of the batches that are returned; None for those of the data set.

    Raises
    ------
    Error
        When the loader has such a process already, or the process fails.
    AssertionError
        When sizes do not go together.
    """

    def __init__(
        self,
        dataset: Any,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        self._worker: _Reader | None = None
        if getattr(dataset, "_accessor", None) is not None:
            raise createPoptorchError(
                "The DataLoader already uses an AsynchronousDataAccessor internally. Either use"
                " the existing one or set mode='poptorch.DataLoaderMode.Sync' in the DataLoader."
            )
        combined = getattr(dataset, "combinedBatchSize", None)
        keeps_rest = combined not in (None, 1) and dataset.keeps_rest
        assert not keeps_rest or rebatched_size is not None, (
            "The 'drop_last=False' option from the DataLoader only works if 'rebatched_size' is"
            " specified too."
        )
        is_size = rebatched_size is None or rebatched_size > 1
        assert is_size, "rebatched_size must be None or greater than 1"
        self._dataset, self.rebatched_size = dataset, rebatched_size
        context = multiprocessing.get_context(_METHODS[sharing_strategy])
        if isinstance(context, ForkServerContext):
            context.set_forkserver_preload(PRELOADED)
        loading = Loading(
            dataset,
            Slots(context, buffer_size),
            load_indefinitely,
            early_preload,
            rebatched_size,
            getattr(dataset, "rebatched_drop_last", True),
            max(miss_sleep_time_in_ms / 1000, 0.001),
        )
        if sharing_strategy is not SharingStrategy.FileSystem:
            self._worker = _Reader(loading, context)
            return
        with tempfile.TemporaryDirectory(prefix="poptorch-data-") as folder:
            loading.dataset = Path(folder) / "dataset.pkl"
            loading.dataset.write_bytes(pickle.dumps(dataset))
            self._worker = _Reader(loading, context)

    def terminate(self) -> None:
        """End the process."""
        worker, self._worker = self.__dict__.get("_worker"), None
        if worker is not None:
            worker.terminate()

    def __del__(self) -> None:
        self.terminate()

    def __len__(self) -> int:
        length = len(self._dataset)
        if self.rebatched_size and getattr(self._dataset, "_accessor", None) is not self:
            length = length * self._dataset.batch_size // self.rebatched_size
        return length

    def __iter__(self) -> AsynchronousDataAccessor:
        self._running().restart()
        return self

    def __next__(self) -> Any:
        batch = self._running().take()
        if batch is None:
            raise StopIteration
        return batch

    def _running(self) -> _Reader:
        assert self._worker is not None, "The AsynchronousDataAccessor was terminated"
        return self._worker
