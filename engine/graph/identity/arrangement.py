"""Weights of a model on their way into variables: arrays that know how they were arranged.

What holds a weight on the tiles has its elements in another order, padded with zeros. The steps
that lead there are plain data, so that the same can be done with other weights of that shape.
"""

from __future__ import annotations

from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Arranged",
    "Arrangement",
    "Step",
    "arrangement_of",
    "on_diagonal",
    "padded",
    "rearranged",
    "weight",
]

#: A step: what is done, and its numbers.
Step = tuple[str, tuple[Any, ...]]
#: Which weight it is, in the terms of its owner, and the steps from it.
Arrangement = tuple[object, tuple[Step, ...]]


class Arranged(np.ndarray):
    """A weight, or what its dimensions were permuted, split, joined, cut or padded to.

    Any other function of numpy returns an array that knows nothing.

    Attributes
    ----------
    arrangement
        Which weight it is and the steps from it; None where they are unknown.
    """

    arrangement: Arrangement | None

    def __array_finalize__(self, source: object) -> None:
        """Know nothing of an array that numpy made of another one."""
        self.arrangement = None

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements in another shape."""
        array = super().reshape(*shape, **options)
        return array if options else _after(self, array, "reshape", array.shape)

    def transpose(self, *axes: Any) -> Any:
        """Return the array with its dimensions permuted."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        numbers = tuple(order) if order and order[0] is not None else tuple(range(self.ndim))[::-1]
        return _after(self, super().transpose(*axes), "transpose", numbers)

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex, /) -> Any:
        """Return the array with two dimensions exchanged."""
        numbers = int(axis1), int(axis2)
        return _after(self, super().swapaxes(axis1, axis2), "swapaxes", numbers)

    def __getitem__(self, place: Any) -> Any:
        """Return a part; its arrangement is known if it is made of slices."""
        part = super().__getitem__(place)
        slices = place if isinstance(place, tuple) else (place,)
        if not all(isinstance(one, slice) for one in slices):
            return part
        bounds = tuple((one.start, one.stop, one.step) for one in slices)
        return _after(self, part, "slice", bounds)


def _after(
    before: NDArray[Any], array: NDArray[Any], kind: str, numbers: tuple[Any, ...]
) -> NDArray[Any]:
    """Return an array that knows that it is one step after another one, if that is known."""
    arrangement = arrangement_of(before)
    if arrangement is None:
        return array
    source, steps = arrangement
    arranged = array.view(Arranged)
    arranged.arrangement = source, (*steps, (kind, _plain(numbers)))
    return arranged


def _plain(numbers: Any) -> Any:
    """Return numbers as the types of Python, for files."""
    if isinstance(numbers, tuple | list):
        return tuple(_plain(number) for number in numbers)
    return None if numbers is None else int(numbers)


def weight(source: object, array: NDArray[Any]) -> NDArray[Any]:
    """Return the content of a weight as an array that knows that it is."""
    arranged = array.view(Arranged)
    arranged.arrangement = source, ()
    return arranged


def arrangement_of(array: object) -> Arrangement | None:
    """Return the weight that an array is made of, and how; None if that is not known."""
    return getattr(array, "arrangement", None)


def padded(array: NDArray[Any], after: tuple[int, ...]) -> NDArray[Any]:
    """Return an array with so many zeros after every dimension."""
    if not any(after):
        return array
    result = np.pad(np.asarray(array), [(0, count) for count in after])
    return _after(array, result, "padded", after)


def on_diagonal(array: NDArray[Any], dim: int, position: int) -> NDArray[Any]:
    """Return an array with a new dimension, as long as another, and zeros off their diagonal.

    Parameters
    ----------
    array
        The elements on the diagonal.
    dim
        The other dimension.
    position
        Where the new dimension is inserted, at most at the other one.
    """
    plain = np.asarray(array)
    size = plain.shape[dim]
    sizes = [1] * (plain.ndim + 1)
    sizes[position] = sizes[dim + 1] = size
    is_own = np.eye(size, dtype=np.bool_).reshape(sizes)
    result = np.where(is_own, np.expand_dims(plain, position), np.zeros((), plain.dtype))
    return _after(array, result, "on_diagonal", (dim, position))


def rearranged(array: NDArray[Any], steps: tuple[Step, ...]) -> NDArray[Any]:
    """Return a weight after the steps of an arrangement."""
    for kind, numbers in steps:
        if kind == "slice":
            array = array[tuple(slice(*bounds) for bounds in numbers)]
        elif kind == "padded":
            array = padded(array, numbers)
        elif kind == "on_diagonal":
            array = on_diagonal(array, *numbers)
        elif kind == "swapaxes":
            array = array.swapaxes(*numbers)
        else:
            array = cast(NDArray[Any], getattr(array, kind)(numbers))
    return array
