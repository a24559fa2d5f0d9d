"""A model compiled for a machine: its inputs, its outputs, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.errors import BadInput
from tilescope.engine.graph import RemoteBuffer
from tilescope.engine.ir import (
    Count,
    Model,
    Optimiser,
    Parameter,
    ReplicaGroup,
    State,
    Training,
    Value,
)
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
    n_shares
        How many replicas have equal shares of what the host reads and writes.
    is_off_chip
        Whether it is in streaming memory, which the host reads and writes without a program.
    sharded_by
        The replicas that keep a shard each; see `tilescope.engine.ir.State`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_setting: bool
    n_shares: int = 1
    is_off_chip: bool = False
    sharded_by: ReplicaGroup | None = None

    @classmethod
    def of(cls, value: Parameter | State, *, is_off_chip: bool) -> Held:
        """Return the record of a value of a model."""
        if not isinstance(value, State):
            return cls(
                value.name, value.shape, value.dtype, value.is_setting, is_off_chip=is_off_chip
            )
        shape = value.shape if value.sharded_by is None else value.whole_shape
        return cls(
            value.name,
            shape,
            value.dtype,
            value.is_setting,
            value.n_shares,
            is_off_chip,
            value.sharded_by,
        )

    def of_host(self, content: NDArray[Any]) -> NDArray[Any]:
        """Return what the host knows the content of a replica as, in the type of the value.

        That of a replica with a shard is all shards, joined.
        """
        if self.sharded_by is not None:
            content = content.reshape(-1)[: prod(self.shape)]
        whole = content if self.n_shares == 1 else content * self.n_shares
        return whole.reshape(self.shape).astype(self.dtype)

    def of_replica(self, whole: NDArray[Any], replica: int = 0) -> NDArray[Any]:
        """Return what a replica holds of an array of the host."""
        if self.sharded_by is not None:
            group = self.sharded_by
            n = -(-whole.size // group.size)
            padded = np.zeros(n * group.size, whole.dtype)
            padded[: whole.size] = whole.reshape(-1)
            first = group.member_of(replica) * n
            return padded[first : first + n]
        return whole if self.n_shares == 1 else (whole / self.n_shares).astype(self.dtype)


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

    def read_held(self, engine: Engine, replica: int = 0) -> dict[str, NDArray[Any]]:
        """Return the values that a replica holds, by name: weights, and what an optimiser keeps.

        The device copies them to the host by a program of its own.
        """
        if not self.held:
            return {}
        engine.run(HELD_TO_HOST, "weightsToHost")
        return self._held_of(engine, replica)

    def read_replicas(self, engine: Engine) -> list[dict[str, NDArray[Any]]]:
        """Return the values that every computed replica holds, by name."""
        if not self.held:
            return [{} for _ in range(engine.n_computed_replicas)]
        engine.run(HELD_TO_HOST, "weightsToHost")
        return [self._held_of(engine, replica) for replica in range(engine.n_computed_replicas)]

    def _held_of(self, engine: Engine, replica: int) -> dict[str, NDArray[Any]]:
        """Return what the program that reads held values has copied of a replica."""
        return {
            value.name: value.of_host(self._content(engine, value, replica)) for value in self.held
        }

    def _content(self, engine: Engine, value: Held, replica: int) -> NDArray[Any]:
        """Return what a replica holds of a value, or what all replicas with a shard of it hold."""
        if value.sharded_by is not None:
            replicas = value.sharded_by.members_with(replica)
            whole = replace(value, sharded_by=None)
            return np.concatenate([self._content(engine, whole, one) for one in replicas])
        if not value.is_off_chip:
            return engine.output(held_stream(HELD_TO_HOST, value.name), replica)
        return engine.read_remote(self._buffer(value), 0, replica)

    def _buffer(self, value: Held) -> RemoteBuffer:
        """Return the remote buffer of a value."""
        buffers = self.executable.graph.remote_buffers
        return next(buffer for buffer in buffers if buffer.name == value.name)

    def write_held(
        self,
        engine: Engine,
        arrays: Mapping[str, NDArray[Any]],
        of_replicas: Mapping[str, Sequence[NDArray[Any]]] | None = None,
    ) -> None:
        """Set values that the device holds; those that are not given stay as they are.

        Parameters
        ----------
        engine
            Engine created for `executable`.
        arrays
            What all replicas hold, by name.
        of_replicas
            What each holds of other values, by name: an array for every computed replica.

        Raises
        ------
        BadInput
            When the device holds no such value, it has another shape or type, or there are more or
            fewer arrays than replicas.
        """
        known = {value.name: value for value in self.held}
        n_replicas = engine.n_computed_replicas
        each = {name: [array] * n_replicas for name, array in arrays.items()}
        each |= {name: list(those) for name, those in (of_replicas or {}).items()}
        for name in set(each) - set(known):
            raise BadInput(f"The device holds no {name!r}; it holds {', '.join(known)}")
        for name, those in each.items():
            if len(those) != n_replicas:
                raise BadInput(
                    f"{name!r} has arrays for {len(those)} replicas; {n_replicas} are computed"
                )
            each[name] = [_checked_input(known[name], {name: array}) for array in those]
        if len(each) < len(known):
            for replica, held in enumerate(self.read_replicas(engine)):
                for name in held.keys() - each.keys():
                    self._connect(engine, HELD_FROM_HOST, known[name], held[name], replica)
        for name, those in each.items():
            for replica, array in enumerate(those):
                self._connect(engine, HELD_FROM_HOST, known[name], array, replica)
        engine.run(HELD_FROM_HOST, "weightsFromHost")

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
        settings = [value for value in self.held if value.is_setting]
        for value in settings:
            name = value.name.rpartition("___")[0]
            array = representable(name, numbers[name], value.dtype)
            self._connect(engine, HOST_SETTINGS, value, array)
        if settings:
            engine.run(HOST_SETTINGS, "optimiserFromHost")

    def _connect(
        self,
        engine: Engine,
        program: int,
        value: Held,
        array: NDArray[Any],
        replica: int | None = None,
    ) -> None:
        """Give a program what it writes into a value of a replica, or of all.

        What is in streaming memory is written there.
        """
        content = value.of_replica(array, replica or 0)
        if value.is_off_chip:
            engine.write_remote(self._buffer(value), content.reshape(-1), 0, replica)
        else:
            engine.connect_stream(held_stream(program, value.name), content, replica)

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
            By name, with the model's shapes and types. With several micro-batches in a run there
            is a dimension for them in front, and with several replicas one for these behind that;
            outputs have them as well.
        name
            Name of the run in the report.

        Raises
        ------
        BadInput
            When an input is missing or unknown, or has the wrong shape or type, or data decide the
            sizes of outputs, which replicas would have different ones of.
        """
        n_replicas = self.executable.machine.n_replicas
        if self.model.counts and n_replicas > 1:
            name = next(iter(self.model.counts))
            raise BadInput(
                f"Data decide how many entries output {name!r} has, and replicas would have"
                " different numbers: run the model on one replica"
            )
        run_inputs = self.model.inputs if self.model.data is None else ()
        n_rounds = self.model.n_rounds
        for value in run_inputs:
            array = _checked_input(value, inputs, n_rounds, n_replicas)
            for replica in range(engine.n_computed_replicas if array.size else 0):
                own = _of_replica(array, replica, n_rounds, n_replicas)
                engine.connect_stream(value.name, own if n_rounds == 1 else _each(own), replica)
        rounds: dict[tuple[str, int], list[NDArray[Any]]] = {}
        if n_rounds > 1:
            streamed = [output for output, value in self.model.outputs if value.known is None]
            fed = {value.name for value in run_inputs}
            for output in streamed:
                for replica in range(engine.n_computed_replicas):
                    collected = rounds[output, replica] = []
                    source: Iterable[NDArray[Any]] = ()
                    if output in fed:
                        whole = np.asarray(inputs[output])
                        source = _of_replica(whole, replica, n_rounds, n_replicas)
                    engine.connect_stream(output, _collector(collected, source), replica)
        for extra in set(inputs) - {value.name for value in run_inputs}:
            names = ", ".join(value.name for value in run_inputs) or "no inputs"
            why = "" if self.model.data is None else ": its data are synthetic"
            raise BadInput(f"Unknown input {extra!r}; the model has {names}{why}")
        engine.run(0, name)
        outputs: dict[str, NDArray[Any]] = {}
        for output, value in self.model.outputs:
            if value.known is not None:
                front = tuple(n for n in (n_rounds, n_replicas) if n > 1)
                outputs[output] = np.broadcast_to(value.known, (*front, *value.shape))
            elif self.model.data is None:
                arrays = [
                    np.stack(rounds[output, replica])
                    if n_rounds > 1
                    else engine.output(output, replica)
                    for replica in range(engine.n_computed_replicas)
                ]
                outputs[output] = _of_all(arrays, n_rounds, n_replicas).astype(value.dtype)
        return outputs if self.model.data is not None else _counted(outputs, self.model.counts)


def _counted(
    outputs: dict[str, NDArray[Any]], counts: Mapping[str, Count]
) -> dict[str, NDArray[Any]]:
    """Return the model's outputs, cut to the entries that count."""
    sizes = {name: int(outputs.pop(count.output)) for name, count in counts.items()}
    for name, size in sizes.items():
        outputs[name] = outputs[name][(slice(None),) * counts[name].axis + (slice(size),)]
    return outputs


def _of_replica(array: NDArray[Any], replica: int, n_rounds: int, n_replicas: int) -> NDArray[Any]:
    """Return what one replica has of an array for all."""
    if n_replicas == 1:
        return array
    own: NDArray[Any] = array[replica] if n_rounds == 1 else array[:, replica]
    return own


def _of_all(arrays: Sequence[NDArray[Any]], n_rounds: int, n_replicas: int) -> NDArray[Any]:
    """Return the arrays of all replicas; those that are not computed have what others have."""
    if n_replicas == 1:
        return arrays[0]
    every = [arrays[replica % len(arrays)] for replica in range(n_replicas)]
    return np.stack(every, axis=0 if n_rounds == 1 else 1)


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
    value: Value | Held,
    inputs: Mapping[str, NDArray[Any]],
    n_rounds: int = 1,
    n_replicas: int = 1,
) -> NDArray[Any]:
    shape = (*(n for n in (n_rounds, n_replicas) if n > 1), *value.shape)
    if value.name not in inputs:
        raise BadInput(f"Input {value.name!r} is missing: it takes {value.dtype} {shape}")
    array = np.asarray(inputs[value.name])
    if array.shape != shape:
        raise BadInput(f"Input {value.name!r} takes an array of shape {shape}, not {array.shape}")
    if array.dtype.kind not in "fiub" or not np.can_cast(array.dtype, value.dtype, "same_kind"):
        raise BadInput(f"Input {value.name!r} takes {value.dtype}, not {array.dtype}")
    return array
