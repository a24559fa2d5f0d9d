"""The part of a data set that one of several processes takes."""

from __future__ import annotations

from typing import Any

import torch

from poptorch.options import Options

__all__ = ["Partition"]


class Partition:
    """The elements of a data set that a process takes.

    Parameters
    ----------
    dataset
        With a length.
    options
        Whose `Distributed` says which of how many processes this is.
    step
        Elements of a combined batch.
    drop_last
        Whether elements that fill no combined batch are left out. Every second time that the data
        are shuffled, the part is moved by what is left out.
    """

    def __init__(self, dataset: Any, options: Options, step: int, drop_last: bool) -> None:
        n_elements, distributed = len(dataset), options.Distributed
        n_processes, process = distributed.numProcesses, distributed.processId
        if drop_last:
            length = step * (n_elements // (step * n_processes))
            first = process * length
            self._length = min(length, n_elements - first)
            self._left = n_elements % length if length else 0
        else:
            lengths = [len(range(number, n_elements, n_processes)) for number in range(n_processes)]
            first, self._length, self._left = sum(lengths[:process]), lengths[process], 0
        self._dataset, self._first, self._offset = dataset, first, first
        self._seed = options.random_seed if options.exists("random_seed") else None
        self._state: torch.Tensor | None = None
        self._shuffled: torch.Tensor | None = None

    def shuffle_global_indices(self) -> None:
        """Shuffle the whole data set, in the same way in all processes."""
        generator = torch.Generator()
        if self._state is None:
            assert self._seed is not None, "Processes shuffle by options.randomSeed(): set it"
            generator.manual_seed(self._seed)
        else:
            generator.set_state(self._state)
        order = torch.randperm(len(self._dataset), generator=generator)
        if self._shuffled is None:
            self._shuffled = order.share_memory_()
        else:
            self._shuffled.copy_(order)
        self._state = generator.get_state()

    def swap_range(self) -> None:
        """Take the elements that were left out last time."""
        is_moved = self._offset != self._first
        self._offset = self._first if is_moved else self._first + self._left

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        position = index + self._offset
        return self._dataset[position if self._shuffled is None else int(self._shuffled[position])]
