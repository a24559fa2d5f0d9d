"""A data loader whose batches have what a call of a model takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from poptorch._logging import logger
from poptorch.dataloader.accessor import AsynchronousDataAccessor
from poptorch.dataloader.partition import Partition
from poptorch.enums import DataLoaderMode
from poptorch.errors import createPoptorchError
from poptorch.options import Options
from poptorch.profiling import Channel
from poptorch.trees import flatten, map_tensors

__all__ = ["DataLoader"]

_CHANNEL = Channel("poptorch.DataLoader")
_ADVICE = "To avoid having to handle this special case switch to drop_last=True"


class DataLoader(torch.utils.data.DataLoader):
    """Loads combined batches: batch × device iterations × replicas × accumulation.

    Parameters
    ----------
    options
        Of the model that takes the batches.
    dataset
        Of elements, or an iterable one.
    batch_size
        Elements of a batch as the model sees it; None leaves batches to the data set.
    shuffle
        Whether elements come in another order every time.
    num_workers
        Processes that load elements.
    drop_last
        Whether elements that fill no combined batch are left out.
    persistent_workers
        Whether the processes stay from one iteration to the next; by default, if there are any.
    auto_distributed_partitioning
        Whether each of several processes takes a part of the elements.
    mode
        Whether a process of its own loads combined batches while the model runs.
    async_options
        Of that process; see `AsynchronousDataAccessor`.
    rebatched_worker_size
        Of ``AsyncRebatched``: elements that a worker loads at once.
    batch_sampler
        Chooses the elements of a batch.
    **kwargs
        As for PyTorch's loader.

    Raises
    ------
    Error
        When ``batch_sampler`` comes with what it replaces.
    AssertionError
        When options do not go together.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Iterable[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        assert isinstance(options, Options), f"options are {type(options)}: expected Options"
        self._accessor: AsynchronousDataAccessor | None = None
        self._is_sampled = batch_sampler is not None
        self._drops_last = drop_last
        if self._is_sampled:
            if batch_size != 1 or shuffle:
                raise createPoptorchError(
                    "`batch_sampler` option is mutually exclusive with batch_size, shuffle."
                )
            if options.Distributed.numProcesses > 1 and auto_distributed_partitioning:
                raise createPoptorchError(
                    "`batch_sampler` option is mutually exclusive with"
                    " auto_distributed_partitioning=True."
                )
            batch_size = getattr(batch_sampler, "batch_size", batch_size)
        options._freeze()
        self._options = options
        self._n_combined = None if batch_size is None else _batches_of_call(options)
        self._combined = None if batch_size is None else batch_size * _batches_of_call(options)
        self._is_shuffled_by_partition = False
        if isinstance(dataset, IterableDataset):
            _check_iterable(options, auto_distributed_partitioning, num_workers, kwargs)
        else:
            if not drop_last:
                self._warn_of_rest(len(dataset), batch_sampler, batch_size)
            if options.Distributed.numProcesses > 1 and auto_distributed_partitioning:
                dataset = self._part(dataset, bool(shuffle), drop_last)
                self._is_shuffled_by_partition, shuffle = bool(shuffle), False
        rows = 1 if self._is_sampled else self._combined
        rebatched = None
        is_async = mode is not DataLoaderMode.Sync
        has_rest = not drop_last and self._combined is not None and self._combined > 1
        if mode is DataLoaderMode.AsyncRebatched or (is_async and has_rest):
            rebatched = self._combined
            self.rebatched_drop_last = drop_last
            drop_last = False
            if rebatched_worker_size is not None:
                assert self._combined is not None
                assert rebatched_worker_size <= self._combined, (
                    f"The rebatched_worker_size ({rebatched_worker_size}) must be <= to the"
                    f" combined batch size ({self._combined})"
                )
                rows = rebatched_worker_size
        super().__init__(
            dataset,
            batch_size=rows,
            shuffle=None if self._is_sampled else bool(shuffle),
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            drop_last=False if self._is_sampled else drop_last,
            persistent_workers=num_workers > 0
            if persistent_workers is None
            else persistent_workers,
            **kwargs,
        )
        if is_async:
            asynchronous = async_options or {}
            assert "rebatched_size" not in asynchronous, (
                "You cannot use DataLoaderMode.AsyncRebatched and manually specify the"
                " rebatched_size in async_options"
            )
            self._accessor = AsynchronousDataAccessor(
                self, **asynchronous, rebatched_size=rebatched
            )

    def __len__(self) -> int:
        if self._accessor is None or not self._accessor.rebatched_size:
            return int(super().__len__())
        whole, rest = divmod(len(self.dataset), self._accessor.rebatched_size)
        return whole + (1 if rest and not self.rebatched_drop_last else 0)

    @property
    def keeps_rest(self) -> bool:
        """Whether the last batch may be smaller than a combined one."""
        return not self._is_sampled and not self.drop_last

    @property
    def combinedBatchSize(self) -> int | None:
        """Elements of a combined batch; None where the data set makes batches."""
        return self._combined

    @property
    def options(self) -> Options:
        """The options of the model."""
        return self._options

    def terminate(self) -> None:
        """End the process that loads batches, if there is one."""
        accessor = self.__dict__.get("_accessor")
        if accessor is not None:
            accessor.terminate()

    def __del__(self) -> None:
        self.terminate()

    def __iter__(self) -> Iterator[Any]:
        if self._is_shuffled_by_partition:
            self.dataset.shuffle_global_indices()
            self.dataset.swap_range()
        return _CHANNEL._items("next", self._batches())

    def _batches(self) -> Iterable[Any]:
        """Return combined batches as they are loaded."""
        if self._accessor is not None:
            return self._accessor
        if self._is_sampled and self._n_combined not in (None, 1):
            return self._joined()
        iterator: Iterator[Any] = super().__iter__()
        return iterator

    def _joined(self) -> Iterator[Any]:
        """Return the batches of a sampler, as many as a call takes as one."""
        batches: list[Any] = []
        for batch in super().__iter__():
            batches.append(batch)
            if len(batches) == self._n_combined:
                yield _concatenated(batches)
                batches = []
        if batches and not self._drops_last:
            yield _concatenated(batches)

    def _part(self, dataset: Any, is_shuffled: bool, drop_last: bool) -> Partition:
        assert not is_shuffled or self._options.exists("random_seed"), (
            "When using auto_distributed_partitioning you must set poptorch.Options.randomSeed()"
            " to ensure that tensors are in the same order in all processes."
        )
        assert self._combined is not None, (
            "batch_size=None not allowed when using auto_distributed_partitioning."
        )
        return Partition(dataset, self._options, self._combined, drop_last)

    def _warn_of_rest(self, n_elements: int, sampler: Any, batch_size: int | None) -> None:
        """Warn of a last batch that is smaller than the others."""
        if self._combined is None:
            return
        if not self._is_sampled:
            step = self._combined * self._options.Distributed.numProcesses
            if n_elements % step:
                logger.warning(
                    "The number of elements in the dataset (%d) is not divisible by the number of"
                    " elements processed per step (%d) and drop_last=False. The last tensor will"
                    " have a batch size of %d. %s",
                    n_elements,
                    step,
                    n_elements % step,
                    _ADVICE,
                )
            return
        try:
            n_batches = len(sampler)
        except (TypeError, NotImplementedError):
            logger.warning(
                "The `batch_sampler` __len__ method is not implemented and drop_last=False. The"
                " last tensor may be incomplete - batch size < %d. %s",
                self._n_combined,
                _ADVICE,
            )
            return
        if n_batches % (self._n_combined or 1):
            logger.warning(
                "The number of batches generated by the batch sampler (%d) is not divisible by the"
                " number of batches processed per step (%d) and drop_last=False. The last tensor"
                " will have a batch size of %d. %s",
                n_batches,
                self._n_combined,
                n_batches % (self._n_combined or 1) * (batch_size or 1),
                _ADVICE,
            )


def _batches_of_call(options: Options) -> int:
    """Return how many batches a call of a model takes."""
    n_groups = options.replication_factor // options.input_group_size
    return int(options.device_iterations * n_groups * options.Training.gradient_accumulation)


def _check_iterable(
    options: Options, is_partitioned: bool, num_workers: int, others: dict[str, Any]
) -> None:
    """Refuse what an iterable data set cannot do, and warn of what it repeats.

    Raises
    ------
    AssertionError
        When several processes are to take parts of it.
    """
    assert not is_partitioned or options.Distributed.numProcesses == 1, (
        "auto_distributed_partitioning not supported for IterableDataset"
    )
    if num_workers > 1 and "worker_init_fn" not in others:
        logger.warning(
            "IterableDataset used with num_workers=%d but no worker_init_fn specified: the"
            " DataLoader returns every element %d times",
            num_workers,
            num_workers,
        )


def _concatenated(batches: list[Any]) -> Any:
    """Return batches as one."""
    columns = iter(zip(*(flatten(batch) for batch in batches), strict=True))
    return map_tensors(lambda _: torch.cat(next(columns)), batches[0])
