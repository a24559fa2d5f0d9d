"""A training from a model's file and data to trained weights: the work of ``tilescope train``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.channels import DATA
from tilescope.engine.errors import BadInput, BadOption
from tilescope.engine.frontend.source_model import Setup, SourceModel
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.catalogue import OUTLINING
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session.source_compilation import load_model, programs_of
from tilescope.engine.session.trainer import LossNotFinite, Trainer
from tilescope.engine.training import LOSS_OUTPUT, OVERFLOWS, Descent, Loss, Schedule, for_training
from tilescope.tracepoints import traced_items

__all__ = ["ON_NAN", "Course", "TrainingResult", "train_model"]

Arrays = Mapping[str, NDArray[Any]]

#: What may follow a loss that is no number.
ON_NAN = ("stop", "skip")


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a training does besides its steps.

    Parameters
    ----------
    epochs
        Times that all data are used.
    n_rounds
        Micro-batches of a step.
    seed
        Of the order of the data, which differs from epoch to epoch, and of dropout.
    is_shuffled
        Whether the order is drawn; otherwise it is that of the data.
    checkpoint
        File of the checkpoints; None writes none.
    checkpoint_steps
        Steps from one checkpoint to the next; 0 writes them at the end of every epoch.
    is_resumed
        Whether to go on from the checkpoint.
    on_nan
        One of `ON_NAN`.
    recomputation
        What of the forward pass is computed again for the backward pass.
    schedule
        How the rate changes from step to step.
    recorded_steps
        Steps, from 1, whose runs the report has; all if None.
    counts_overflows
        Whether values beyond half are counted; see `for_training`.
    """

    epochs: int = 1
    n_rounds: int = 1
    seed: int = 0
    is_shuffled: bool = True
    checkpoint: Path | None = None
    checkpoint_steps: int = 0
    is_resumed: bool = False
    on_nan: str = "stop"
    recomputation: Recomputation = field(default_factory=Recomputation)
    schedule: Schedule = field(default_factory=Schedule)
    recorded_steps: frozenset[int] | None = None
    counts_overflows: bool = False

    def __post_init__(self) -> None:
        """Check what depends on each other.

        Raises
        ------
        BadOption
            When a value is out of range.
        """
        if self.on_nan not in ON_NAN:
            raise BadOption(f"on_nan is {self.on_nan!r}: choose {' or '.join(ON_NAN)}")
        if self.is_resumed and self.checkpoint is None:
            raise BadOption("Nothing to resume from: name the checkpoint's file with --checkpoint")
        if min(self.epochs, self.n_rounds) < 1:
            raise BadOption("Epochs and micro-batches are 1 or more")


@dataclass(frozen=True)
class TrainingResult:
    """What a training came to.

    Parameters
    ----------
    weights
        By name, with running statistics.
    losses
        Of every step, the mean of its micro-batches.
    n_skipped
        Steps that were left out since their loss was no number.
    n_overflows
        Steps in which the device found gradients that are no numbers, and changed nothing but the
        loss scaling; None where it does not choose that.
    overflows
        Values of all steps that were beyond half, by pass; empty where they are not counted.
    cycles
        Of a step, on the slowest IPU.
    report, lost
        As of a `ModelRun`.
    n_unused
        Samples at the end of the data that make no whole step.
    """

    weights: Mapping[str, NDArray[Any]]
    losses: list[float]
    n_skipped: int
    n_overflows: int | None
    overflows: Mapping[str, int]
    cycles: int
    report: Path | None
    lost: str
    n_unused: int


@dataclass
class _Progress:
    """Where a training is; in JSON, what a checkpoint has beside the arrays."""

    epoch: int = 0
    position: int = 0
    losses: list[float] = field(default_factory=list)
    n_skipped: int = 0
    overflows: dict[str, int] = field(default_factory=dict)

    def add_overflows(self, counts: Mapping[str, int]) -> None:
        """Add those of a step."""
        for kind, n_values in counts.items():
            self.overflows[kind] = self.overflows.get(kind, 0) + n_values


def train_model(  # noqa: PLR0913 # model, machine, data, and what is done with them
    source: SourceModel,
    machine: Machine,
    options: EngineOptions,
    *,
    data: Arrays,
    loss: Loss,
    optimiser: Descent,
    course: Course,
    setup: Setup,
    facts: Mapping[str, str] | None = None,
    n_computed_replicas: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingResult:
    """Train a model.

    Parameters
    ----------
    source
        The model of a front end.
    machine, options
        As for `run_model`.
    data
        All inputs and the labels by name, with a first dimension of samples.
    loss, optimiser, course
        What is minimised, how weights change, and how long.
    setup
        What is said of the model; its weights are those that it names as trained.
    facts
        What the report's provenance says besides, by key.
    n_computed_replicas
        As for `Engine`.
    progress
        Called with a line about the next action.

    Raises
    ------
    BadModel, BadInput, UnsupportedOperators, BadOption
        When model, data and options do not fit; nothing is written then.
    LossNotFinite
        When a loss is no number and that is to stop the training.
    OutOfTileMemory
        When the model does not fit.
    RunFailed
        When the checkpoint cannot be written.
    """
    say = progress or (lambda _: None)
    if course.schedule.kind != "constant" or course.schedule.warmup:
        _check_rates(optimiser)
    labels = data.get(loss.labels)
    if loss.kind == "ctc" and not loss.longest and labels is not None and labels.ndim == 2:
        loss = replace(loss, longest=int(labels.shape[1]))
    say(f"Reading {source.place}")
    model = for_training(
        load_model(source, setup, course.seed),
        loss,
        optimiser,
        course.n_rounds,
        n_replicas=machine.n_replicas,
        seed=course.seed,
        recomputation=course.recomputation,
        counts_overflows=course.counts_overflows,
    )
    batches = _Batches(model, data, course, loss, machine.n_replicas)
    say(f"Compiling {len(model.operations)} operations and their gradients")
    trainer = Trainer(
        model,
        machine,
        options,
        facts={**source.facts(model), **_facts(course, setup), **(facts or {})},
        n_computed_replicas=n_computed_replicas,
        is_instrumented=options.instrument,
        is_checked=options.flag("debug.verify"),
        available_memory=AvailableMemory.given(options),
        cache_directory=options.cache_directory,
        programs=programs_of(options),
        partials=PartialsTypes.of(options),
        outlines=options.flag(OUTLINING),
        without=options.patterns_off,
    )
    with trainer, trainer.engine.recording(False):
        done = _Progress()
        if course.is_resumed:
            assert course.checkpoint is not None, "Course checks it"
            done = _Progress(**trainer.restore(course.checkpoint))
            batches.check_progress(done, course)
        trainer.engine.load(lambda n_done, n, _: say(f"Preparing kernels {n_done + 1}/{n}"))
        _train(trainer, batches, course, done, say, optimiser)
        if course.checkpoint is not None:
            trainer.save(course.checkpoint, vars(done))
        weights, n_overflows = trainer.weights(), None
        if optimiser.scaling is not None:
            n_overflows = int(trainer.compiled.read_held(trainer.engine)[OVERFLOWS])
        n_cycles = int(trainer.engine.n_cycles().max()) if done.losses else 0
    recorder = trainer.engine.recorder
    return TrainingResult(
        weights,
        done.losses,
        done.n_skipped,
        n_overflows,
        done.overflows,
        n_cycles,
        recorder.path,
        recorder.lost,
        batches.n_unused,
    )


def _facts(course: Course, setup: Setup) -> dict[str, str]:
    """Return what a report's provenance says of a training besides loss and optimiser, by key."""
    facts = {"seed": str(course.seed), "schedule": course.schedule.text, **setup.facts}
    if setup.batch is not None:
        facts["batch"] = str(setup.batch)
    if setup.precision == "half" and not setup.has_masters:
        facts["half_weights"] = "true"
    patterns = {"trained": setup.trained, "frozen": setup.frozen}
    every = {"trained": ("*",), "frozen": ()}
    for key, names in patterns.items():
        if names != every[key]:
            facts[key] = json.dumps(list(names))
    return facts


def _train(
    trainer: Trainer,
    batches: _Batches,
    course: Course,
    done: _Progress,
    say: Callable[[str], None],
    optimiser: Descent,
) -> None:
    """Do the steps that are left."""
    since, engine, rate = 0, trainer.engine, optimiser.rate
    while done.epoch < course.epochs:
        steps = batches.of_epoch(done.epoch, done.position)
        for batch in traced_items(DATA, "load batch", steps):
            number = done.epoch * batches.n_steps + done.position + 1
            is_recorded = course.recorded_steps is None or number in course.recorded_steps
            factor = course.schedule.factor(number - 1, course.epochs * batches.n_steps)
            if optimiser.rate * factor != rate:
                rate = optimiser.rate * factor
                trainer.set_optimiser(optimiser.scaled(factor))
            try:
                with engine.recording(is_recorded):
                    outputs = trainer.step(batch)
            except LossNotFinite as error:
                engine.record_step(
                    number, done.epoch + 1, error.loss, rate, overflows=trainer.overflows
                )
                if course.on_nan == "stop":
                    raise
                done.n_skipped += 1
            else:
                loss = float(np.mean(outputs[LOSS_OUTPUT]))
                done.losses.append(loss)
                engine.record_step(number, done.epoch + 1, loss, rate, overflows=trainer.overflows)
            done.add_overflows(trainer.overflows)
            done.position += 1
            since += 1
            if course.checkpoint is not None and since == course.checkpoint_steps:
                trainer.save(course.checkpoint, vars(done))
                since = 0
            say(f"{_line(course, batches, done)} rate {rate:g}")
        done.epoch, done.position = done.epoch + 1, 0
        if course.checkpoint is not None and not course.checkpoint_steps:
            trainer.save(course.checkpoint, vars(done))


def _check_rates(optimiser: Descent) -> None:
    """Refuse a schedule of rates that are constants of the program.

    Raises
    ------
    BadOption
        Says which.
    """
    for pattern in ("", *optimiser.specific):
        of_group = optimiser.of_group(pattern)
        if of_group.is_constant or "lr" in of_group.constants:
            whose = f" of weights {pattern!r}" if pattern else ""
            raise BadOption(
                f"The rate{whose} is constant, and a schedule changes it: leave out the schedule or"
                " is_constant"
            )


def _line(course: Course, batches: _Batches, done: _Progress) -> str:
    loss = f"loss {done.losses[-1]:.4g}" if done.losses else "no loss yet"
    place = f"epoch {done.epoch + 1}/{course.epochs} step {done.position}/{batches.n_steps}"
    return f"{place} {loss}"


class _Batches:
    """The steps of an epoch.

    Attributes
    ----------
    n_steps
        Of an epoch.
    n_unused
        Samples at the end that make no whole step.

    Raises
    ------
    BadInput
        When the data do not fit the model.
    """

    def __init__(
        self, model: Model, data: Arrays, course: Course, loss: Loss, n_replicas: int
    ) -> None:
        self.data, self.course = {}, course
        self._front = tuple(n for n in (course.n_rounds, n_replicas) if n > 1)
        names = [value.name for value in model.inputs if value.known is None]
        sizes: dict[str, int] = {}
        self.batch = 0
        for value in model.inputs:
            if value.known is not None:
                continue
            if value.name not in data:
                extra = " (the labels; name them with --labels)" * (value.name == loss.labels)
                raise BadInput(
                    f"The data lack {value.name!r}{extra}: they hold {', '.join(data) or 'nothing'}"
                )
            array = data[value.name]
            if not value.shape or array.shape[1:] != value.shape[1:]:
                raise BadInput(
                    f"{value.name!r} of the data has shape {array.shape}: expected (samples,"
                    f" {', '.join(map(str, value.shape[1:]))})"
                )
            self.batch = value.shape[0]
            sizes[value.name] = array.shape[0]
            self.data[value.name] = array
        for name in data:
            if name not in names:
                raise BadInput(f"The data have {name!r}; the model takes {', '.join(names)}")
        if len(set(sizes.values())) > 1:
            stated = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise BadInput(f"The data differ in their number of samples: {stated}")
        self.n_samples = next(iter(sizes.values()), 0)
        self.per_step = self.batch * course.n_rounds * n_replicas
        self.n_steps = self.n_samples // self.per_step if self.per_step else 0
        if not self.n_steps:
            raise BadInput(
                f"The data have {self.n_samples} samples, and a step takes {self.per_step}:"
                f" {course.n_rounds} micro-batches of {self.batch}"
                + (f" on each of {n_replicas} replicas" if n_replicas > 1 else "")
            )
        self.n_unused = self.n_samples - self.n_steps * self.per_step
        _check_labels(model, self.data, loss)

    def of_epoch(self, epoch: int, position: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the inputs of the steps of an epoch, from a position on."""
        order = np.arange(self.n_samples)
        if self.course.is_shuffled:
            order = np.random.default_rng([self.course.seed, epoch]).permutation(self.n_samples)
        for step in range(position, self.n_steps):
            chosen = order[step * self.per_step : (step + 1) * self.per_step]
            yield {name: self._stacked(array[chosen]) for name, array in self.data.items()}

    def _stacked(self, array: NDArray[Any]) -> NDArray[Any]:
        if not self._front:
            return array
        return array.reshape(*self._front, self.batch, *array.shape[1:])

    def check_progress(self, done: _Progress, course: Course) -> None:
        """Refuse a checkpoint of other data.

        Raises
        ------
        BadInput
            When it is further than the data allow.
        """
        if done.position > self.n_steps:
            raise BadInput(
                f"The checkpoint is at step {done.position} of an epoch, which has {self.n_steps}"
                " steps with these data: resume with the data, the batch and the number of"
                " micro-batches that it was written with"
            )
        if done.epoch >= course.epochs:
            raise BadInput(
                f"The checkpoint has {done.epoch} epochs done: ask for more with --epochs"
            )


def _check_labels(model: Model, data: Arrays, loss: Loss) -> None:
    """Refuse labels that are no classes.

    Raises
    ------
    BadInput
        Names the first.
    """
    if loss.kind not in ("nll", "cross-entropy", "ctc") or loss.labels not in data:
        return
    labels = np.asarray(data[loss.labels])
    if labels.dtype.kind not in "iu":
        raise BadInput(f"The labels {loss.labels!r} are {labels.dtype}: expected integers")
    outputs = dict(model.outputs)
    predicted = next(v for n, v in outputs.items() if n == (loss.output or n) and n != LOSS_OUTPUT)
    n_classes = predicted.shape[-1 if loss.kind == "ctc" else 1]
    is_class = (labels >= 0) & (labels < n_classes)
    if loss.ignored is not None:
        is_class |= labels == loss.ignored
    if not is_class.all():
        first = np.argwhere(~is_class)[0]
        place = ", ".join(map(str, first))
        raise BadInput(
            f"Label {labels[tuple(first)]} of {loss.labels!r} at sample {place} is out of range:"
            f" the model has {n_classes} classes, from 0"
        )
