"""Data of a step: arrays, or functions that are called for every batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from popart.errors import popart_exception, popart_runtime_error

__all__ = ["PyStepIO", "PyStepIOCallback", "PyWeightsIO", "StepIO"]

Array = NDArray[Any]


class StepIO(Protocol):
    """Where batches come from and anchors go to."""

    def check(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Collection[str]
    ) -> None:
        """Refuse arrays that do not hold the elements of a step, before it.

        Parameters
        ----------
        inputs, outputs
            Elements of a step, by tensor.
        known
            Names of all inputs of the model, used or not.

        Raises
        ------
        popart_exception
            Names the first.
        """

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the next batch of an input.

        Raises
        ------
        popart_exception
            When there is none.
        """

    def write(self, name: str, value: Array) -> None:
        """Take the next value of an anchor.

        Raises
        ------
        popart_exception
            When there is no place for it.
        """


def _contiguous(kind: str, name: str, array: Array) -> Array:
    array = np.asarray(array)
    if not array.flags.c_contiguous:
        raise popart_exception(
            f"PyStepIO is unable to use the numpy {kind} array for tensor '{name}' as it is not"
            " c-contiguous (a data conversion here could have a significant impact on performance"
            " and hence is not allowed)"
        )
    return array


class PyStepIO:
    """Batches and anchors in arrays, which are read and written from the front.

    Parameters
    ----------
    inputs, outputs
        Arrays by the names of tensors: of any shape, with the elements of all batches of a step.

    Raises
    ------
    popart_exception
        When one is not contiguous.
    """

    def __init__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self._inputs = {name: _contiguous("input", name, a) for name, a in inputs.items()}
        self._outputs = {name: _contiguous("output", name, a) for name, a in outputs.items()}
        self._done: dict[str, int] = {}
        self._asserts = True

    def enableRuntimeAsserts(self, isOn: bool) -> None:
        """Set whether numbers of elements are checked before a step."""
        self._asserts = bool(isOn)

    def check(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Collection[str]
    ) -> None:
        """Refuse arrays that do not hold the elements of a step; see `StepIO`."""
        self._done = {}
        for name in self._inputs:
            if self._asserts and name not in known:
                raise popart_runtime_error(
                    f"The tensor '{name}' has been provided as one of the inputs to the stepIO, but"
                    " it is not registered as one of the inputs to the model. Please check this"
                    " tensor and your stepIO."
                )
        for kind, arrays, expected in (
            ("input", self._inputs, inputs),
            ("output", self._outputs, outputs),
        ):
            for name, n in expected.items():
                if name not in arrays:
                    raise popart_exception(
                        f"No tensor {name} provided in PyStepIO's {kind}s; it has"
                        f" {', '.join(arrays) or 'none'}"
                    )
                if self._asserts and arrays[name].size != n:
                    raise popart_exception(
                        f"Unexpected number of {kind} elements for tensor {name}. Expected {n:,},"
                        f" but got {arrays[name].size:,}"
                    )

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the next batch of an input, which begins again at the end of its array."""
        array = self._inputs[name].reshape(-1)
        n = int(np.prod(shape))
        start = self._done.get(name, 0)
        if start + n > array.size:
            start = 0
        self._done[name] = start + n
        return array[start : start + n].reshape(shape)

    def write(self, name: str, value: Array) -> None:
        """Write the next value of an anchor."""
        array = self._outputs[name].reshape(-1)
        start = self._done.get(f"->{name}", 0)
        if start + value.size > array.size:
            start = 0
        array[start : start + value.size] = value.reshape(-1)
        self._done[f"->{name}"] = start + value.size


class PyStepIOCallback:
    """Batches and anchors by functions.

    Parameters
    ----------
    input_callback
        Called with the name of an input and whether it is only prefetched; returns its batch.
    input_complete_callback
        Called with the name when the batch is on the device.
    output_callback
        Called with the name of an anchor; returns an array that its value is written to.
    output_complete_callback
        Called with the name when it is written.
    """

    def __init__(
        self,
        input_callback: Callable[[str, bool], Array],
        input_complete_callback: Callable[[str], None],
        output_callback: Callable[[str], Array],
        output_complete_callback: Callable[[str], None],
    ) -> None:
        self._input, self._input_complete = input_callback, input_complete_callback
        self._output, self._output_complete = output_callback, output_complete_callback

    def check(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Collection[str]
    ) -> None:
        """Accept what the functions will return."""

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the next batch of an input.

        Raises
        ------
        popart_exception
            When the function returns an array of another size.
        """
        array = _contiguous("input", name, self._input(name, False))
        if array.size != int(np.prod(shape)):
            raise popart_exception(
                f"The input callback returned {array.size:,} elements for tensor {name}; a batch"
                f" of shape {list(shape)} has {int(np.prod(shape)):,}"
            )
        batch = array.reshape(shape).copy()
        self._input_complete(name)
        return batch

    def write(self, name: str, value: Array) -> None:
        """Write the next value of an anchor.

        Raises
        ------
        popart_exception
            When the function returns an array of another size.
        """
        array = _contiguous("output", name, self._output(name))
        if array.size != value.size:
            raise popart_exception(
                f"The output callback returned {array.size:,} elements for tensor {name}; a value"
                f" has {value.size:,}"
            )
        array.reshape(-1)[:] = value.reshape(-1)
        self._output_complete(name)


class PyWeightsIO:
    """Arrays that weights are read into, or written from, by name.

    Raises
    ------
    popart_exception
        When one is not contiguous.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = {name: np.asarray(array) for name, array in weights.items()}
        for name, array in self.weights.items():
            if not array.flags.c_contiguous:
                raise popart_exception(
                    "PyWeightsIO is unable to use the provided numpy output array for tensor"
                    f" '{name}' as it is not c-contiguous. Please use a function like"
                    " `numpy.ascontiguousarray()` to make contiguous before passing to PyWeightsIO"
                )
