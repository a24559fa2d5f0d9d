"""Arrays in batches, under the names of ``tf.data``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from tilescope.engine.errors import BadInput

__all__ = ["Dataset"]


@dataclass(frozen=True)
class _Recipe:
    """How samples are taken from arrays.

    Parameters
    ----------
    arrays
        An array, or a tuple of arrays, with samples along the first axis.
    order
        Numbers of the samples, in the order in which they are taken.
    """

    arrays: Any
    order: np.ndarray[Any, np.dtype[np.int64]]
    batch_size: int = 0
    drops_remainder: bool = False
    shuffles: bool = False
    seed: int | None = None
    n_repeats: int = 1
    functions: tuple[Callable[..., Any], ...] = ()


class Dataset(keras.utils.PyDataset):
    """Batches of arrays, which Keras's loops take.

    Only arrays in memory, in batches; what else TensorFlow's data sets do is not here.
    """

    def __init__(self, recipe: _Recipe) -> None:
        super().__init__()
        self._recipe = recipe
        self._rng = np.random.default_rng(recipe.seed)
        self._order = recipe.order
        self.on_epoch_end()

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Return the samples of an array, or of a tuple of arrays.

        Raises
        ------
        BadInput
            When the arrays have different numbers of samples.
        """
        arrays = (
            tuple(map(np.asarray, tensors)) if isinstance(tensors, tuple) else (np.asarray(tensors))
        )
        sizes = {len(array) for array in (arrays if isinstance(arrays, tuple) else (arrays,))}
        if len(sizes) != 1:
            raise BadInput(f"The arrays have different numbers of samples: {sorted(sizes)}")
        return Dataset(_Recipe(arrays, np.arange(sizes.pop())))

    def shuffle(self, buffer_size: int = 0, seed: int | None = None, **_: Any) -> Dataset:
        """Return the samples in another order in every epoch; the buffer is all of them."""
        del buffer_size
        return self._with(shuffles=True, seed=seed)

    def batch(self, batch_size: int, drop_remainder: bool = False, **_: Any) -> Dataset:
        """Return batches of samples.

        Raises
        ------
        BadInput
            When the size is below 1, or samples are in batches already.
        """
        if batch_size < 1 or self._recipe.batch_size:
            raise BadInput(f"Samples cannot be put in batches of {batch_size} here")
        return self._with(batch_size=int(batch_size), drops_remainder=drop_remainder)

    def repeat(self, count: int = 1) -> Dataset:
        """Return the samples several times.

        Raises
        ------
        BadInput
            When there would be no end.
        """
        if count is None or count < 1:
            raise BadInput("A data set repeats a number of times: give it to repeat(…), or epochs")
        return self._with(n_repeats=self._recipe.n_repeats * count)

    def take(self, count: int) -> Dataset:
        """Return the first samples, or the first batches."""
        size = count * (self._recipe.batch_size or 1)
        return self._with(order=self._recipe.order[:size])

    def map(self, map_func: Callable[..., Any], **_: Any) -> Dataset:
        """Return what a function makes of every batch, or of every sample where there are none."""
        return self._with(functions=(*self._recipe.functions, map_func))

    def prefetch(self, buffer_size: int = 0) -> Dataset:
        """Return the data set: its arrays are in memory."""
        del buffer_size
        return self

    def cache(self, *_: Any) -> Dataset:
        """Return the data set: its arrays are in memory."""
        return self

    def _with(self, **changes: Any) -> Dataset:
        return Dataset(replace(self._recipe, **changes))

    def __len__(self) -> int:
        """Return the number of batches."""
        recipe = self._recipe
        n, size = len(recipe.order), recipe.batch_size or 1
        return recipe.n_repeats * (n // size if recipe.drops_remainder else -(-n // size))

    def __getitem__(self, index: int) -> Any:
        """Return a batch."""
        recipe = self._recipe
        place = index % (len(self) // recipe.n_repeats)
        size = recipe.batch_size or 1
        chosen = self._order[place * size : (place + 1) * size]
        batch = (
            tuple(array[chosen] for array in recipe.arrays)
            if isinstance(recipe.arrays, tuple)
            else recipe.arrays[chosen]
        )
        for function in recipe.functions:
            batch = function(*batch) if isinstance(batch, tuple) else function(batch)
        return batch

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches."""
        for index in range(len(self)):
            yield self[index]

    def on_epoch_end(self) -> None:
        """Draw the order of the next epoch."""
        if self._recipe.shuffles:
            self._order = self._rng.permutation(self._recipe.order)
