"""One model from its file to its outputs and report: the work of ``tilescope run``."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadInput, OutOfTileMemory, RunFailed
from tilescope.engine.frontend.source_model import Setup, SourceModel
from tilescope.engine.host.memory import give_back
from tilescope.engine.ir.model import PRECISIONS
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions
from tilescope.engine.options.catalogue import ALLOW_OUT_OF_MEMORY
from tilescope.engine.session.capacity import NOTHING_BEYOND, REPORTED, Excess
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.source_compilation import compile_source

__all__ = [
    "PRECISIONS",
    "ModelRun",
    "check_writable",
    "read_inputs",
    "run_model",
    "write_outputs",
]

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelRun:
    """The results of a run.

    Parameters
    ----------
    outputs
        Of the last iteration, by name.
    report
        Path of the report; None without a report.
    lost
        Reason why a requested report is missing or ended before the run; empty if neither.
    cycles
        Cycles of one iteration on the slowest IPU.
    inputs
        What the model was given, by name.
    """

    compiled: CompiledModel
    outputs: dict[str, NDArray[Any]]
    report: Path | None
    lost: str
    cycles: int
    inputs: Arrays


def read_inputs(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name.

    Raises
    ------
    BadInput
        When it is missing or not an .npz file.
    """
    try:
        stored = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise BadInput(f"{path} holds one unnamed array: save it with numpy.savez")
        with stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise BadInput(f"Inputs {path} do not exist: give the path of an .npz file") from None
    except MemoryError:
        raise BadInput(f"Inputs {path} do not fit into this computer's memory") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError):
        raise BadInput(f"Inputs {path} are not an .npz file; save them with numpy.savez") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # an archive member that is not an array
            raise BadInput(f"{name!r} in {path} is not an array; save arrays with numpy.savez")
    return arrays


def write_outputs(path: Path, outputs: Arrays) -> None:
    """Write arrays as an .npz file; on failure an existing file stays intact.

    Raises
    ------
    RunFailed
        When the file cannot be written.
    """
    if not path.name:
        raise RunFailed(f"Cannot write outputs to {path}: it is a directory")
    for name in outputs:
        parts_of_name = PurePosixPath(name)
        if parts_of_name.is_absolute() or ".." in parts_of_name.parts:
            raise RunFailed(
                f"Cannot write outputs to {path}: the name of output {name!r} leads out of the"
                " archive; rename it in the model"
            )
    partial = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(partial, "w", allowZip64=True) as archive:
            for name, array in outputs.items():
                # numpy.savez would take the names as Python arguments.
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
        partial.replace(path)
    except (OSError, struct.error) as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        reason = error.strerror if isinstance(error, OSError) else "a name in it is too long"
        raise RunFailed(f"Cannot write outputs to {path}: {reason}") from None


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose result it is to hold.

    Raises
    ------
    RunFailed
        When its folder is missing or closed, or it is a directory.
    """
    partial = path.with_name(f".{path.name}.part") if path.name else path
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise RunFailed(f"Cannot write {path}: {error.strerror}") from None


def _excess(options: EngineOptions) -> Excess | None:
    """Return how large a model that cannot fit may be; None where it is to run all the same."""
    if options.allow_out_of_memory and options.is_given(ALLOW_OUT_OF_MEMORY):
        return None
    return REPORTED if options.writes_report else NOTHING_BEYOND


def _sized(setup: Setup, inputs: Arrays) -> Setup:
    """Return a setup with the shapes of the inputs that are given, where it leaves them open."""
    if setup.batch is not None:
        return setup
    shapes = {name: array.shape for name, array in inputs.items() if name not in setup.values}
    return replace(setup, shapes={**shapes, **setup.shapes})


@dataclass(frozen=True)
class _Batches:
    """Runs, and the micro-batches that a run of a pipeline takes at once.

    Parameters
    ----------
    n_runs, n_rounds
        Runs, and micro-batches of a run.
    n_replicas
        Replicas, each of which takes such micro-batches.
    is_divided
        Whether the inputs hold all micro-batches, one after the other; else all are the same.
    """

    n_runs: int
    n_rounds: int = 1
    n_replicas: int = 1
    is_divided: bool = False

    @classmethod
    def of(cls, setup: Setup, inputs: Arrays, iterations: int, n_replicas: int) -> _Batches:
        """Return the micro-batches of inputs.

        Raises
        ------
        BadInput
            When inputs of a pipeline, or of replicas, are no whole number of batches, or not of
            equally many, or batches that replicas cannot share.
        """
        if not setup.pipeline and n_replicas == 1:
            return cls(iterations)
        same = cls(1, iterations, n_replicas) if setup.pipeline else cls(iterations, 1, n_replicas)
        if setup.batch is None or not inputs:
            return same
        sizes = {name: array.shape[0] if array.ndim else 0 for name, array in inputs.items()}
        (n_samples, *others) = {*sizes.values()}
        if others or not n_samples or n_samples % setup.batch:
            stated = ", ".join(f"{name} {size}" for name, size in sizes.items())
            who = "A pipeline takes" if setup.pipeline else "Replicas take"
            raise BadInput(
                f"{who} whole micro-batches of {setup.batch} from all inputs: their first"
                f" dimensions are {stated}"
            )
        n_batches = n_samples // setup.batch
        if n_batches == 1:
            return same
        if n_batches % n_replicas or (not setup.pipeline and n_batches != n_replicas):
            most = "a multiple of them" if setup.pipeline else "one each"
            raise BadInput(
                f"The inputs hold {n_batches} batches of {setup.batch} for {n_replicas} replicas:"
                f" give {most}, or one for all"
            )
        return cls(iterations, n_batches // n_replicas, n_replicas, is_divided=True)

    @property
    def front(self) -> tuple[int, ...]:
        """Dimensions for micro-batches and replicas."""
        return tuple(n for n in (self.n_rounds, self.n_replicas) if n > 1)

    def repeated(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return what an input that holds one batch holds, where inputs hold all of them."""
        n = self.n_rounds * self.n_replicas
        return np.concatenate([array] * n) if self.is_divided else array

    def drawn(self, compiled: CompiledModel, seed: int) -> Arrays:
        """Return random inputs as a run takes them: replicas have other ones, micro-batches not."""
        of_replicas = [compiled.random_inputs(seed + r) for r in range(self.n_replicas)]
        if self.n_replicas == 1:
            inputs = of_replicas[0]
        else:
            names = of_replicas[0]
            inputs = {name: np.stack([each[name] for each in of_replicas]) for name in names}
        if self.n_rounds == 1:
            return inputs
        return {name: np.broadcast_to(x, (self.n_rounds, *x.shape)) for name, x in inputs.items()}

    def divided(self, inputs: Arrays) -> Arrays:
        """Return inputs with dimensions for micro-batches and replicas, if there are several."""
        front = self.front
        if not front:
            return inputs
        if not self.is_divided:
            return {name: np.broadcast_to(x, (*front, *x.shape)) for name, x in inputs.items()}
        n = self.n_rounds * self.n_replicas
        return {
            name: x.reshape(*front, x.shape[0] // n, *x.shape[1:]) for name, x in inputs.items()
        }

    def joined(self, outputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs of all micro-batches in one array, or of the last of equal ones.

        Those of replicas follow each other.
        """
        if not self.front:
            return outputs
        n_front = len(self.front)
        if self.n_rounds > 1 and not self.is_divided:
            outputs = {name: x[-1] for name, x in outputs.items()}
            n_front -= 1
        if not n_front:
            return outputs
        return {
            name: x.reshape(-1, *x.shape[n_front + 1 :]) if x.ndim > n_front else x.reshape(-1)
            for name, x in outputs.items()
        }


@contextlib.contextmanager
def _noting_report(engine: Engine) -> Iterator[None]:
    """Add the place of the report to an exception or interrupt that ends it early."""
    try:
        yield
    except BaseException as error:
        if engine.recorder.path is not None and not isinstance(error, OutOfTileMemory):
            error.add_note(f"The report ended early: {engine.recorder.path}")
        raise


def run_model(  # noqa: PLR0913 # the options of a run
    source: SourceModel,
    machine: Machine,
    options: EngineOptions,
    *,
    inputs: Arrays | None = None,
    setup: Setup | None = None,
    seed: int = 0,
    iterations: int = 1,
    n_computed_replicas: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> ModelRun:
    """Compile a model, run it, and write its report if the options request one.

    Parameters
    ----------
    source
        The model of a front end.
    machine
        The machine to run on.
    options
        The engine options in effect.
    inputs
        By name; missing inputs are drawn at random. Their shapes are those of the model's inputs,
        unless the setup says another shape or batch.
    setup
        What is said of the model.
    seed
        Seed of the random inputs.
    iterations
        Number of runs; of a pipeline whose inputs hold one batch, the micro-batches of its run.
    n_computed_replicas
        As for `Engine`.
    progress
        Called with a line about the next action.

    Raises
    ------
    BadModel, BadInput, UnsupportedOperators
        When the model or its inputs cannot be used.
    BadOption
        When the precision or the synthetic data are unknown.
    OutOfTileMemory
        When it does not fit; the report of its compilation is still written, unless its weights
        or one of its values exceed all tiles and 1 GiB, or its steps the code of a tile and 10,100.
    """
    say = progress or (lambda _: None)
    setup = _sized(setup or Setup(), inputs or {})
    batches = _Batches.of(setup, inputs or {}, iterations, machine.n_replicas)
    setup = replace(setup, n_rounds=batches.n_rounds)
    settings = CompileSettings.of(options, _excess(options))
    program = compile_source(
        source, machine, settings, options=options, setup=setup, seed=seed, progress=say
    )
    compiled = program.compiled
    facts = {**program.facts, "seed": str(seed), **setup.facts}
    if setup.batch is not None:
        facts["batch"] = str(setup.batch)
    if setup.synthetic:
        facts["synthetic_data"] = setup.synthetic
    give_back()
    outputs: dict[str, NDArray[Any]] = {}
    engine = Engine(
        compiled.executable,
        options,
        provenance=facts,
        n_computed_replicas=n_computed_replicas,
    )
    with _noting_report(engine), engine:
        engine.load(lambda n_done, total, _: say(f"Preparing kernels {n_done + 1}/{total}"))
        # Inputs come last: those of a model that does not fit may exceed this computer's memory.
        stated = inputs or {}
        of_run = {**batches.drawn(compiled, seed), **batches.divided(stated)}
        for iteration in range(batches.n_runs):
            say(f"Running {iteration + 1}/{batches.n_runs}")
            outputs = compiled.run(engine, of_run)
        outputs = batches.joined(outputs)
    cycles = int(engine.n_cycles().max())
    random = compiled.random_inputs(seed).items()
    values = {**{name: batches.repeated(array) for name, array in random}, **stated}
    return ModelRun(compiled, outputs, engine.recorder.path, engine.recorder.lost, cycles, values)
