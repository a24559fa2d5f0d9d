"""A model compiled for a machine: its inputs, its outputs, and its execution."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.collection import without_collection
from tilescope.engine.compiler import Executable
from tilescope.engine.compiler.cache import ExchangeFolder, PlanFolder
from tilescope.engine.compiler.executable.executable import CompileRecord
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.errors import BadInput
from tilescope.engine.ir import Count, Model, Optimiser, Training, Value
from tilescope.engine.ir.digest import model_digests
from tilescope.engine.lower import (
    HELD_FROM_HOST,
    HELD_TO_HOST,
    HOST_SETTINGS,
    held_stream,
    lower,
)
from tilescope.engine.machine import Machine
from tilescope.engine.options import resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.session.capacity import REPORTED, Excess, check_capacity
from tilescope.engine.session.compile import compile_programs
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.outline import outline
from tilescope.engine.session.synthetic_data import drawn_inputs
from tilescope.engine.training.sgd import representable
from tilescope.engine.transform import transform
from tilescope.engine.transform.narrowing import narrowed_types
from tilescope.reports.figures import bytes_past

__all__ = ["CompiledModel", "Held", "compile_model"]

_log = logging.getLogger(__name__)


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
        numbers = optimiser.settings(self.training.factor)
        if numbers.keys() != self.training.optimiser.settings(self.training.factor).keys():
            raise BadInput(
                f"{optimiser} computes otherwise than {self.training.optimiser}: compile the model"
                " for it"
            )
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
            for output, collected in rounds.items():
                engine.connect_stream(output, _collector(collected))
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


def _collector(collected: list[NDArray[Any]]) -> Callable[[NDArray[Any]], None]:
    """Return a function that keeps copies of what it is given."""

    def keep(array: NDArray[Any]) -> None:
        collected.append(np.array(array))

    return keep


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


@without_collection()
def compile_model(  # noqa: PLR0913 # the options of a compilation
    model: Model,
    machine: Machine,
    *,
    is_instrumented: bool | None = None,
    is_checked: bool = False,
    available_memory: AvailableMemory | None = None,
    cache_directory: Path | str | None = None,
    partials: PartialsTypes | None = None,
    outlines: bool = True,
    without: Collection[str] = (),
    excess: Excess | None = REPORTED,
) -> CompiledModel:
    """Compile a model for a machine; the result may not fit.

    Parameters
    ----------
    model
        The operator graph.
    machine
        The machine to compile for.
    is_instrumented
        Whether cycle counters occupy tile memory; see `compile_programs`.
    is_checked
        Whether to check that no vertex accesses what another vertex of its compute set writes.
    available_memory
        Share of tile memory available to an operation while it runs. By default 0.6, or half of
        it, a quarter and so on while the model does not fit.
    cache_directory
        Directory of the executable cache; see `compile_programs`.
    partials
        Type of the partial sums of half products; float by default.
    outlines
        Whether repeated operations share vertices and code where that pays.
    without
        Names of passes over the model to leave out; see `tilescope.engine.transform.PASSES`.
    excess
        How large a model that cannot fit may be and still be compiled; None compiles all.

    Raises
    ------
    BadOption
        When there is no pass of such a name.
    BadModel
        When the model is not well-formed, or has an operation on unsupported types.
    OutOfTileMemory
        When a value, or the least code of its operations, exceeds the tiles by more than `excess`.
    """
    began_us, timer = time.time_ns() // 1000, time.perf_counter_ns()
    stated, model = model, transform(model, without)
    if excess is not None:
        check_capacity(model, machine, excess)
    graph_digest, weights_digest = model_digests(stated)
    cache_directory = cache_directory or resolve().cache_directory
    costs, costed = PhaseCosts(machine), ExchangeFolder(cache_directory)
    key = graph_digest, available_memory, partials, outlines, sorted(without)
    costed.take(key, costs.exchanges)
    memo = PlanMemo(PlanFolder(cache_directory))

    def compiled(share: AvailableMemory) -> Executable:
        lowered = lower(model, machine, share, partials, memo)
        if outlines:
            outline(lowered.graph, lowered.programs[0], costs)
        return compile_programs(
            lowered.graph,
            lowered.programs,
            plans=lowered.plans,
            is_instrumented=is_instrumented,
            is_checked=is_checked,
            cache_directory=cache_directory,
            costs=costs,
        )

    executable = compiled(available_memory or AvailableMemory())
    if available_memory is None and executable.overfull_tiles.size:
        executable = _with_less(compiled, executable)
    costed.keep(key, costs.exchanges)
    elapsed_us = (time.perf_counter_ns() - timer) // 1000
    record = CompileRecord(executable.record.cache, began_us, elapsed_us)
    executable = replace(
        executable,
        record=record,
        graph_digest=graph_digest,
        weights_digest=weights_digest,
        notices=(*model.notices, *narrowed_types(model)),
    )
    held = tuple(Held(v.name, v.shape, v.dtype, v.is_setting) for v in model.held)
    return CompiledModel(model.interface, executable, held, stated.training)


def _with_less(
    compiled: Callable[[AvailableMemory], Executable], executable: Executable
) -> Executable:
    """Return the program compiled with the largest share of temporary memory at which it fits.

    Shares at which all plans would stay as they are need no compilation. If the program does not
    fit at any share, it is returned as it is.
    """
    now, smaller = AvailableMemory(), executable
    share = None if _constants_exceed_tiles(executable) else now.halved()
    while share is not None:
        if _binds(share, smaller, now):
            _log.info(
                "%d tiles overfull: compiling with %g of tile memory for an operation",
                smaller.overfull_tiles.size,
                share.convolution,
            )
            now, smaller = share, compiled(share)
            if not smaller.overfull_tiles.size:
                return smaller
        share = share.halved()
    return executable


def _binds(share: AvailableMemory, executable: Executable, now: AvailableMemory) -> bool:
    """Return whether a smaller share than the present one may change a plan.

    A plan is the fastest that fits, so that it stays until it no longer fits; then the one with the
    least memory stays.
    """
    most_bytes = min(share.convolution, share.matmul) * executable.machine.allocatable_bytes
    shares = now.convolution, now.matmul
    return any(
        plan.temporary_bytes > most_bytes
        and plan.bound != "least_memory"
        and plan.available_memory_proportion in shares
        for plan in executable.plans
    )


def _constants_exceed_tiles(executable: Executable) -> bool:
    """Return whether constants alone do not fit, whatever the plans.

    Zeros do not count: plans may pad.
    """
    n_bytes = sum(
        int(np.count_nonzero(variable.values)) * variable.dtype.n_bytes
        for variable in executable.graph.variables
        if variable.category == "constant" and variable.values is not None
    )
    machine = executable.machine
    return bool(bytes_past(np.array(n_bytes), machine.n_tiles * machine.allocatable_bytes))
