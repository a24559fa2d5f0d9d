"""A model compiled for a machine: its inputs, its outputs, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.errors import BadInput
from tilescope.engine.ir import Count, Model, Optimiser, Training, Value
from tilescope.engine.ir.held import (
    HELD_FROM_HOST,
    HELD_TO_HOST,
    HOST_SETTINGS,
    held_stream,
    representable,
)
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.synthetic_data import drawn_inputs

__all__ = ["CompiledModel", "Held"]


@dataclass(frozen=True)
class Held:
    """A value that the device keeps from run to run.

    Parameters
    ----------
    is_setting
        Whether the host changes it between runs.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_setting: bool


@dataclass(frozen=True)
class CompiledModel:
    """A model compiled for a machine.

    Parameters
    ----------
    model
        The inputs and outputs of the operator graph; see `Model.interface`.
    executable
        The compiled program.
    held
        What the device keeps from run to run.
    training
        How a run trains the model; None for inference.
    """

    model: Model
    executable: Executable
    held: tuple[Held, ...] = ()
    training: Training | None = None

    def read_held(self, engine: Engine) -> dict[str, NDArray[Any]]:
        """Return the values that the device holds, by name: weights, and what an optimiser keeps.

        The device copies them to the host by a program of its own.
        """
        if not self.held:
            return {}
        engine.run(HELD_TO_HOST, "weightsToHost")
        return {
            value.name: engine.output(held_stream(HELD_TO_HOST, value.name)).astype(value.dtype)
            for value in self.held
        }

    def write_held(self, engine: Engine, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the values that the device holds; those that are not given stay as they are.

        Raises
        ------
        BadInput
            When the device holds no such value, or it has another shape or type.
        """
        known = {value.name: value for value in self.held}
        for name in set(arrays) - set(known):
            raise BadInput(f"The device holds no {name!r}; it holds {', '.join(known)}")
        checked = {name: _checked_input(known[name], arrays) for name in arrays}
        if len(checked) < len(known):
            checked = self.read_held(engine) | checked
        self._write(engine, HELD_FROM_HOST, "weightsFromHost", checked)

    def write_optimiser(self, engine: Engine, optimiser: Optimiser) -> None:
        """Set the numbers of the optimiser that the host may change between runs.

        Raises
        ------
        BadInput
            When the model is not trained, or another optimiser would need another program.
        BadOption
            When the type of the weights does not hold a number.
        """
        if self.training is None:
            raise BadInput("The model is not trained: it has no optimiser")
        if optimiser.structure != self.training.optimiser.structure:
            raise BadInput(
                f"{optimiser} computes otherwise than {self.training.optimiser}: compile the model"
                " for it"
            )
        numbers = optimiser.settings(replace(self.training, optimiser=optimiser).factor)
        values = {
            value.name: representable(name, numbers[name], value.dtype)
            for value in self.held
            if value.is_setting
            for name in [value.name.rpartition("___")[0]]
        }
        if values:
            self._write(engine, HOST_SETTINGS, "optimiserFromHost", values)

    def _write(
        self, engine: Engine, program: int, name: str, arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        for key, array in arrays.items():
            engine.connect_stream(held_stream(program, key), array)
        engine.run(program, name)

    def random_inputs(self, seed: int) -> dict[str, NDArray[Any]]:
        """Return random inputs for a seed; none where synthetic data take their place."""
        if self.model.data is not None:
            return {}
        return drawn_inputs(self.model, "random_normal", seed)

    def run(
        self, engine: Engine, inputs: Mapping[str, NDArray[Any]], name: str = ""
    ) -> dict[str, NDArray[Any]]:
        """Run once and return the outputs by name; none of synthetic data.

        Parameters
        ----------
        engine
            Engine created for `executable`.
        inputs
            By name, with the model's shapes and types; of a model that is trained by several
            micro-batches in a run, with a dimension for them in front, as outputs have.
        name
            Name of the run in the report.

        Raises
        ------
        BadInput
            When an input is missing or unknown, or has the wrong shape or type.
        """
        run_inputs = self.model.inputs if self.model.data is None else ()
        n_rounds = self.model.n_rounds
        for value in run_inputs:
            array = _checked_input(value, inputs, n_rounds)
            if array.size:
                engine.connect_stream(value.name, array if n_rounds == 1 else _each(array))
        rounds: dict[str, list[NDArray[Any]]] = {}
        if n_rounds > 1:
            rounds = {output: [] for output, value in self.model.outputs if value.known is None}
            fed = {value.name for value in run_inputs}
            for output, collected in rounds.items():
                source = inputs[output] if output in fed else ()
                engine.connect_stream(output, _collector(collected, source))
        for extra in set(inputs) - {value.name for value in run_inputs}:
            names = ", ".join(value.name for value in run_inputs) or "no inputs"
            why = "" if self.model.data is None else ": its data are synthetic"
            raise BadInput(f"Unknown input {extra!r}; the model has {names}{why}")
        engine.run(0, name)
        outputs: dict[str, NDArray[Any]] = {}
        for output, value in self.model.outputs:
            if value.known is not None:
                outputs[output] = np.asarray(value.known)
            elif self.model.data is None and n_rounds > 1:
                outputs[output] = np.stack(rounds[output]).astype(value.dtype)
            elif self.model.data is None:
                outputs[output] = engine.output(output).astype(value.dtype)
        return outputs if self.model.data is not None else _counted(outputs, self.model.counts)


def _counted(
    outputs: dict[str, NDArray[Any]], counts: Mapping[str, Count]
) -> dict[str, NDArray[Any]]:
    """Return the model's outputs, cut to the entries that count."""
    sizes = {name: int(outputs.pop(count.output)) for name, count in counts.items()}
    for name, size in sizes.items():
        outputs[name] = outputs[name][(slice(None),) * counts[name].axis + (slice(size),)]
    return outputs


def _each(arrays: NDArray[Any]) -> Callable[[], NDArray[Any]]:
    """Return a function that returns one array after the other."""
    left = iter(arrays)
    return lambda: next(left)


def _collector(
    collected: list[NDArray[Any]], source: Iterable[NDArray[Any]]
) -> Callable[..., NDArray[Any] | None]:
    """Return a function that keeps copies of what it is given.

    Called without an array it returns one of the source: an input that is an output has one stream
    for both.
    """
    left = iter(source)

    def exchange(array: NDArray[Any] | None = None) -> NDArray[Any] | None:
        if array is None:
            return next(left)
        collected.append(np.array(array))
        return None

    return exchange


def _checked_input(
    value: Value | Held, inputs: Mapping[str, NDArray[Any]], n_rounds: int = 1
) -> NDArray[Any]:
    shape = value.shape if n_rounds == 1 else (n_rounds, *value.shape)
    if value.name not in inputs:
        raise BadInput(f"Input {value.name!r} is missing: it takes {value.dtype} {shape}")
    array = np.asarray(inputs[value.name])
    if array.shape != shape:
        raise BadInput(f"Input {value.name!r} takes an array of shape {shape}, not {array.shape}")
    if array.dtype.kind not in "fiub" or not np.can_cast(array.dtype, value.dtype, "same_kind"):
        raise BadInput(f"Input {value.name!r} takes {value.dtype}, not {array.dtype}")
    return array
