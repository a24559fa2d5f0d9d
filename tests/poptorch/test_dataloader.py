"""Batches of a call: combined, loaded by a process of their own, parts of several processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset, SequentialSampler

import poptorch

Async = poptorch.DataLoaderMode.Async
Rebatched = poptorch.DataLoaderMode.AsyncRebatched


class Numbers(Dataset[Any]):
    """Numbers from 0, with ten times themselves."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index)), torch.tensor(index * 10)


class Broken(Numbers):
    """Fails where there is nothing."""

    def __getitem__(self, index: int) -> Any:
        if index >= 4:
            raise LookupError("no such number")
        return super().__getitem__(index)


class Stream(IterableDataset[Any]):
    """The first numbers."""

    def __iter__(self) -> Any:
        return iter([torch.tensor([float(number)]) for number in range(5)])


def options(**values: int) -> poptorch.Options:
    made = poptorch.Options().deviceIterations(values.get("iterations", 1))
    made.replicationFactor(values.get("replicas", 1))
    made.Training.gradientAccumulation(values.get("rounds", 1))
    return made


def firsts(loader: Any) -> list[list[int]]:
    return [[int(number) for number in batch[0][:, 0]] for batch in loader]


def test_batches_have_what_a_call_takes() -> None:
    loader = poptorch.DataLoader(
        options(iterations=2, replicas=3, rounds=2), Numbers(50), batch_size=2
    )
    assert loader.combinedBatchSize == 24
    assert len(loader) == 2
    assert [len(batch) for batch in firsts(loader)] == [24, 24]


@pytest.mark.parametrize("method", ["Fork", "ForkServer", "FileSystem"])
def test_a_process_loads_the_same_batches_in_every_epoch(method: str) -> None:
    strategy = getattr(poptorch.SharingStrategy, method)
    loader = poptorch.DataLoader(
        options(iterations=2),
        Numbers(9),
        batch_size=2,
        mode=Async,
        async_options={"sharing_strategy": strategy, "buffer_size": 2},
    )
    expected = [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [firsts(loader) for _ in range(3)] == [expected] * 3
    loader.terminate()
    assert not multiprocessing.active_children()


FORK: dict[str, Any] = {"sharing_strategy": poptorch.SharingStrategy.Fork}


@pytest.mark.parametrize("repeats", [True, False])
def test_an_epoch_begins_anew_where_the_last_was_left(repeats: bool) -> None:
    loader = poptorch.DataLoader(
        options(),
        Numbers(20),
        batch_size=2,
        mode=Async,
        async_options={**FORK, "load_indefinitely": repeats},
    )
    for n_taken in (1, 4, 10):
        for batch, _ in zip(firsts_of(loader), range(n_taken), strict=False):
            last = batch
        assert last == [2 * n_taken - 2, 2 * n_taken - 1]
    assert len(firsts(loader)) == 10


def firsts_of(loader: Any) -> Any:
    for batch in loader:
        yield [int(number) for number in batch[0][:, 0]]


@pytest.mark.parametrize(("drop_last", "sizes"), [(True, [4, 4]), (False, [4, 4, 2])])
def test_rebatched_modes_combine_what_workers_load(drop_last: bool, sizes: list[int]) -> None:
    loader = poptorch.DataLoader(
        options(iterations=2),
        Numbers(10),
        batch_size=2,
        drop_last=drop_last,
        mode=Rebatched,
        rebatched_worker_size=3,
        async_options=FORK,
    )
    assert len(loader) == len(sizes)
    batches = firsts(loader)
    assert [len(batch) for batch in batches] == sizes
    assert [number for batch in batches for number in batch] == [*range(sum(sizes))]


def test_early_preload_fills_all_slots() -> None:
    loader = poptorch.DataLoader(
        options(),
        Numbers(20),
        mode=Async,
        async_options={**FORK, "early_preload": True, "buffer_size": 4},
    )
    assert loader._accessor is not None
    assert loader._accessor._worker is not None
    is_full = loader._accessor._worker._data_buffers.indices_mem
    end = time.monotonic() + 20
    while not all(is_full) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(is_full)


def test_streams_are_loaded_too() -> None:
    accessor = poptorch.AsynchronousDataAccessor(Stream(), **FORK)
    assert [[float(x) for x in accessor] for _ in range(2)] == [[0, 1, 2, 3, 4]] * 2
    accessor.terminate()


def test_a_failure_reaches_the_reader_and_leaves_no_process() -> None:
    loader = poptorch.DataLoader(options(), Broken(8), mode=Async, async_options=FORK)
    with pytest.raises(poptorch.Error, match="data fetcher"):
        firsts(loader)
    del loader
    gc.collect()
    assert not multiprocessing.active_children()
    with pytest.raises(poptorch.Error, match="failed to start"):
        poptorch.DataLoader(options(), Broken(8), batch_size=8, mode=Async, async_options=FORK)
    assert not multiprocessing.active_children()


_UNFINISHED = """
import sys, torch, poptorch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, index): return torch.tensor([index])
loader = poptorch.DataLoader(
    poptorch.Options(), Numbers(), mode=poptorch.DataLoaderMode.Async, num_workers=1,
    async_options={"sharing_strategy": poptorch.SharingStrategy.Fork},
)
next(iter(loader))
print(loader._accessor._worker._process.pid, flush=True)
raise SystemExit(3) if sys.argv[1] == "exit" else RuntimeError("in the middle")
"""


@pytest.mark.parametrize("end", ["exit", "exception"])
def test_no_process_outlives_the_program(end: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_UNFINISHED)
    done = subprocess.run(
        [sys.executable, str(script), end], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == (3 if end == "exit" else 1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_samplers_choose_the_elements_of_batches() -> None:
    sampler = BatchSampler(SequentialSampler(Numbers(10)), 2, drop_last=False)
    loader = poptorch.DataLoader(
        options(iterations=2), Numbers(10), batch_sampler=sampler, drop_last=False
    )
    assert [len(batch) for batch in firsts(loader)] == [4, 4, 2]
    with pytest.raises(poptorch.Error, match="mutually exclusive"):
        poptorch.DataLoader(options(), Numbers(10), batch_sampler=sampler, shuffle=True)


def test_processes_take_parts_that_are_shuffled_alike() -> None:
    taken: list[int] = []
    for number in range(3):
        made = options().randomSeed(4)
        made.Distributed.configureProcessId(number, 3)
        loader = poptorch.DataLoader(made, Numbers(12), batch_size=2, shuffle=True)
        taken += [number for batch in firsts(loader) for number in batch]
    assert sorted(taken) == [*range(12)]
    made = poptorch.Options()
    made.Distributed.configureProcessId(0, 3)
    with pytest.raises(AssertionError, match="randomSeed"):
        poptorch.DataLoader(made, Numbers(12), shuffle=True)


def test_leftovers_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    poptorch.DataLoader(options(iterations=2), Numbers(7), batch_size=2, drop_last=False)
    assert "not divisible" in capfd.readouterr().err
