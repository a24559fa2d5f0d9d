"""Measures rows in worker processes; a row that crashes or hangs costs its own result only."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

from tests.corpus.measure import Measured, measure
from tests.corpus.rows import Row

__all__ = ["Measure", "measure_all"]

#: What a worker does with a row; a function of a module, which workers import.
Measure = Callable[[Row], Measured]
#: Longest time of a row, seconds.
_PATIENCE_S = 15 * 60.0
#: Largest address space of a worker.
_MEMORY_BYTES = 10 * 1024**3
_POLL_S = 1.0
_READY = "ready"


class _Worker:
    """A process that measures one row after the other; it is replaced when a row ends it."""

    def __init__(self, measure_row: Measure) -> None:
        self._measure_row = measure_row
        self.row: Row | None = None
        self._start()

    def _start(self) -> None:
        self.is_ready = False
        # Spawned: a fork would share the threads and locks of the numeric libraries.
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_work, args=(self._measure_row, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, row: Row) -> None:
        """Send the next row."""
        self.row, self._began = row, time.monotonic()
        self.connection.send(row)

    def has_exceeded(self, patience_s: float) -> bool:
        """Return whether the current row takes too long."""
        return self.row is not None and time.monotonic() - self._began > patience_s

    def receive(self) -> tuple[Row, Measured] | None:
        """Return the current row and its result, None for a process that has started.

        A process that dies is the reason of a refusal.
        """
        if self.row is None:
            assert self.connection.recv() == _READY
            self.is_ready = True
            return None
        row, self.row = self.row, None
        try:
            return row, self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
        self._start()
        return row, Measured(None, refused=f"ended the process with code {code}")

    def end_row(self, patience_s: float) -> tuple[Row, Measured]:
        """Kill the process, and return the current row as refused."""
        assert self.row is not None
        row, self.row = self.row, None
        self.stop()
        self._start()
        return row, Measured(None, refused=f"took longer than {patience_s:g} s")

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _work(measure_row: Measure, connection: Connection) -> None:
    """Measure the rows that arrive until the other end closes."""
    connection.send(_READY)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    while True:
        try:
            row = connection.recv()
        except EOFError:
            return
        try:
            result = measure_row(row)
        except MemoryError:
            limit = f"{_MEMORY_BYTES / 1024**3:g} GiB"
            result = Measured(None, refused=f"compiling takes more than {limit}")
        except Exception as error:
            result = Measured(None, refused=f"{type(error).__name__}: {error}")
        connection.send(result)


def measure_all(
    rows: Sequence[Row],
    *,
    measure_row: Measure = measure,
    n_workers: int = 2,
    patience_s: float = _PATIENCE_S,
) -> Iterator[tuple[Row, Measured]]:
    """Yield rows with their results as they arrive.

    Parameters
    ----------
    rows
        The rows, in the order in which they start.
    measure_row
        A function of a module, which the workers import.
    n_workers
        Number of processes.
    patience_s
        Longest time of a row.
    """
    waiting = deque(rows)
    workers = [_Worker(measure_row) for _ in range(min(n_workers, len(rows)))]
    try:
        while waiting or any(worker.row for worker in workers):
            for worker in workers:
                if worker.is_ready and worker.row is None and waiting:
                    worker.give(waiting.popleft())
            busy = {
                worker.connection: worker
                for worker in workers
                if worker.row is not None or not worker.is_ready
            }
            for connection in wait(list(busy), timeout=_POLL_S):
                result = busy.pop(connection).receive()  # type: ignore[call-overload]
                if result is not None:
                    yield result
            for worker in busy.values():
                if worker.has_exceeded(patience_s):
                    yield worker.end_row(patience_s)
    finally:
        for worker in workers:
            worker.stop()
