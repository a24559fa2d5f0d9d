"""A model in training on an engine: steps, weights, checkpoints, and losses that are no numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.ir import Model, Optimiser
from tilescope.engine.ir.digest import model_digests
from tilescope.engine.machine import Machine
from tilescope.engine.options import EngineOptions
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.interpret import first_not_finite
from tilescope.engine.session.model_run import read_inputs, write_outputs
from tilescope.engine.transform import transform
from tilescope.engine.transform.overflow import OVERFLOW

__all__ = ["LossNotFinite", "Trainer"]

Arrays = Mapping[str, NDArray[Any]]

#: Entry of a checkpoint that holds what is no array.
_FACTS = "checkpoint.json"

#: Version of the form of checkpoints, and those that can be read. In the first, all replicas have
#: the values of one.
_FORM = 2
_FORMS = (1, _FORM)


class LossNotFinite(BadInput):
    """A step's loss is infinite or no number; the weights are those before the step.

    Attributes
    ----------
    loss
        The loss.
    """

    loss: float = float("nan")


class Trainer:
    """Trains a model, step by step.

    Parameters
    ----------
    model
        The result of `tilescope.engine.training.for_training`.
    machine
        The machine to train on.
    options
        Engine options; None takes those of the environment.
    facts
        What the report's provenance says besides the facts of the training, by key.
    n_computed_replicas
        As for `Engine`.
    **compilation
        As for `compile_model`.

    Attributes
    ----------
    compiled, engine
        What runs, and on what.
    n_steps
        Steps done so far, those before a restored checkpoint included.
    overflows
        Values of the last step that were beyond half, by pass, where the model counts them; those
        of a step whose loss is no number, too.

    Raises
    ------
    BadModel
        When the model cannot be trained.
    OutOfTileMemory
        When it does not fit.
    """

    def __init__(
        self,
        model: Model,
        machine: Machine,
        options: EngineOptions | None = None,
        *,
        facts: Mapping[str, str] | None = None,
        n_computed_replicas: int | None = None,
        **compilation: Any,
    ) -> None:
        if model.training is None:
            raise BadModel(
                f"{model.name!r} has no loss and no optimiser: give it to for_training first"
            )
        n_replicas = model.training.n_replicas
        if n_replicas != machine.n_replicas:
            raise BadModel(
                f"{model.name!r} is to be trained on {n_replicas} replicas, and the machine has"
                f" {machine.n_replicas}: give for_training and load_machine the same number"
            )
        self.model, self._training = model, model.training
        self.compiled: CompiledModel = compile_model(model, machine, **compilation)
        sharded = [value.name for value in self.compiled.held if value.sharded_by is not None]
        if sharded and n_computed_replicas not in (None, n_replicas):
            raise BadModel(
                f"Replicas keep shards of {sharded[0]!r}, so that all {n_replicas} must be"
                f" computed, not {n_computed_replicas}: leave out the sharding, or compute all"
            )
        stated = {**(facts or {}), **model.training.facts}
        self.engine = Engine(
            self.compiled.executable,
            options,
            provenance=stated,
            n_computed_replicas=n_computed_replicas,
        )
        self.n_steps = 0
        self.overflows: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the engine; an exception ends its report early."""
        self.engine.__exit__(kind, error, trace)

    def step(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Train on a batch, or on the micro-batches of a step, and return the outputs.

        Parameters
        ----------
        inputs
            As for `CompiledModel.run`, labels included.

        Returns
        -------
        dict
            The outputs by name; ``loss`` is the first, one of each micro-batch.

        Raises
        ------
        BadInput
            When an input is missing or has the wrong shape or type.
        LossNotFinite
            When the loss is infinite or no number: names the step and the operation. The weights
            are those before the step.
        """
        before = self.engine.snapshot()
        outputs = self.compiled.run(self.engine, inputs, f"step {self.n_steps + 1}")
        self.overflows = {
            name.removeprefix(OVERFLOW): int(np.sum(outputs.pop(name), dtype=np.float64))
            for name in [*outputs]
            if name.startswith(OVERFLOW)
        }
        losses = outputs[self._training.loss]
        if not np.isfinite(losses).all():
            self.engine.restore(before)
            error = LossNotFinite(self._not_finite(inputs, losses))
            with np.errstate(invalid="ignore"):
                error.loss = float(np.mean(losses))
            raise error
        self.n_steps += 1
        return outputs

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights and running statistics by name."""
        names = self._weights
        return {k: v for k, v in self.compiled.read_held(self.engine).items() if k in names}

    def set_weights(self, arrays: Arrays) -> None:
        """Set weights by name; those that are not given stay as they are.

        Raises
        ------
        BadInput
            When a weight does not exist, or it has another shape or type.
        """
        self.compiled.write_held(self.engine, arrays)

    def set_optimiser(self, optimiser: Optimiser) -> None:
        """Change the numbers of the optimiser: its rate, for example.

        Raises
        ------
        BadInput
            When it computes otherwise than the one that the model is compiled for.
        """
        self.compiled.write_optimiser(self.engine, optimiser)

    def save(self, path: Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write all that the device holds into a checkpoint; a file that exists is replaced whole.

        What differs between replicas, such as running statistics, is written of each.

        Parameters
        ----------
        path
            The file: a NumPy archive (.npz), with facts in JSON beside the arrays.
        facts
            What the caller has to know to go on, in JSON types.

        Raises
        ------
        RunFailed
            When it cannot be written; an existing file stays as it is.
        """
        replicas = self.compiled.read_replicas(self.engine)
        arrays = dict(replicas[0])
        differing = [
            name
            for name, array in arrays.items()
            if any(other[name].tobytes() != array.tobytes() for other in replicas[1:])
        ]
        arrays |= {name: np.stack([held[name] for held in replicas]) for name in differing}
        stated = {
            "form": _FORM,
            "model": self._digest,
            "n_steps": self.n_steps,
            "facts": dict(facts or {}),
            "of_replicas": differing,
        }
        text = np.frombuffer(json.dumps(stated).encode(), np.uint8)
        write_outputs(path, {_FACTS: text, **arrays})

    def restore(self, path: Path) -> dict[str, Any]:
        """Set all that the device holds to what a checkpoint has; return the caller's facts.

        Raises
        ------
        BadInput
            When it is no checkpoint, or one of another model or another number of replicas.
        """
        arrays = read_inputs(path)
        try:
            stated = json.loads(arrays.pop(_FACTS).tobytes())
            form, model, n_steps = stated["form"], stated["model"], int(stated["n_steps"])
            of_replicas = {name: arrays[name] for name in stated.get("of_replicas", ())}
        except (KeyError, ValueError, TypeError):
            raise BadInput(f"{path} is no checkpoint: it was not written by training") from None
        if form not in _FORMS:
            raise BadInput(
                f"{path} is a checkpoint of form {form}; this version reads"
                f" {' and '.join(map(str, _FORMS))}"
            )
        if model != self._digest or set(arrays) != {value.name for value in self.compiled.held}:
            raise BadInput(
                f"{path} is a checkpoint of another model, or of another optimiser: give the file"
                " that this model was trained with, or train from the start without it"
            )
        n_computed = self.engine.n_computed_replicas
        for name, those in of_replicas.items():
            if len(those) != n_computed:
                raise BadInput(
                    f"{path} has values of {len(those)} replicas ({name!r} differs between them),"
                    f" and {n_computed} are computed: continue with {len(those)}"
                )
        shared = {name: array for name, array in arrays.items() if name not in of_replicas}
        each = {name: [*those] for name, those in of_replicas.items()}
        self.compiled.write_held(self.engine, shared, each)
        self.n_steps = n_steps
        facts: dict[str, Any] = stated["facts"]
        return facts

    @property
    def _weights(self) -> set[str]:
        trained = {p.name for p in self.model.parameters if p.is_trainable}
        return trained | {update.held.name for update in self.model.updates if update.held.shape}

    @property
    def _digest(self) -> str:
        """Digest of what is trained, without how."""
        return model_digests(replace(self.model, training=None))[0]

    def _not_finite(self, inputs: Arrays, loss: NDArray[Any]) -> str:
        """Return the sentence about a loss that is no number."""
        first = tuple(np.argwhere(~np.isfinite(loss))[0])  # micro-batch, replica, where several are
        batch = {name: np.asarray(array)[first] for name, array in inputs.items()}
        what = "no number" if np.isnan(loss[first]) else "infinite"
        culprit = self._culprit(batch)
        where = f", first in {culprit}" if culprit else ""
        return (
            f"The loss is {what} in step {self.n_steps + 1}{where}; the weights are those before"
            " the step: lower the rate, or look for such values in the data"
        )

    def _culprit(self, inputs: Arrays) -> str:
        with self.engine.recording(False):  # the search is no part of the training
            held = self.compiled.read_held(self.engine)
        return first_not_finite(transform(self.model), {**inputs, **held})
