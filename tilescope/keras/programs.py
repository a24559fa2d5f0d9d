"""Programs of a Keras model: compiled for the shapes of a batch, with the model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.frontend.torch import TorchProgram, load_torch
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Loss, for_training
from tilescope.engine.transform.stages import pipelined
from tilescope.keras.capture import Captured
from tilescope.keras.config import configured
from tilescope.keras.optimizers import engine_optimizer

__all__ = ["Inference", "Training"]

Arrays = Mapping[str, NDArray[Any]]
Batch = tuple[Any, ...]


def _imported(model: Any, batch: Batch, *, is_training: bool) -> tuple[Captured, TorchProgram]:
    module = Captured(model, is_training=is_training)
    program = load_torch(module, batch, is_training=True, name=model.name)
    return module, program


def _n_ipus(model: Model) -> int:
    """Return how many IPUs a model takes: those of its stages."""
    stages = {op.placement.stage for op in model.operations} - {None}
    return len(stages) or 1


class _Weights:
    """Brings weights to the device and back.

    Parameters
    ----------
    module
        Holds Keras's variables by name.
    program
        Says what the engine calls them.
    compiled, engine
        Where they are held.
    """

    def __init__(
        self, module: Captured, program: TorchProgram, compiled: CompiledModel, engine: Engine
    ) -> None:
        self._compiled, self._engine = compiled, engine
        held = {value.name for value in compiled.held}
        names = {**program.parameters, **program.buffers}
        self._variables = {
            names[path]: variable
            for path, variable in module.variables.items()
            if names.get(path) in held
        }
        self._versions: dict[str, int] = {}

    def push(self) -> None:
        """Write the variables that have changed on the host since they were last the same."""
        changed = {
            name: variable.value.detach().cpu().numpy()
            for name, variable in self._variables.items()
            if self._versions.get(name) != variable.value._version
        }
        if changed:
            with self._engine.recording(False):
                self._compiled.write_held(self._engine, changed)
            self._note()

    def pull(self) -> None:
        """Read all variables from the device."""
        with self._engine.recording(False):
            held = self._compiled.read_held(self._engine)
        for name, variable in self._variables.items():
            variable.assign(held[name])
        self._note()

    def _note(self) -> None:
        self._versions = {name: v.value._version for name, v in self._variables.items()}


class Training:
    """Steps of training on batches of one shape.

    Parameters
    ----------
    model
        A compiled Keras model.
    batch
        Inputs, labels and, if there are, weights of samples.
    n_rounds
        Micro-batches of a step on every replica.
    is_pipelined
        Whether the stages of the model work at a time.
    recomputation
        Of the engine: what is computed again for the backward pass.
    """

    def __init__(
        self,
        model: Any,
        batch: Batch,
        n_rounds: int,
        *,
        is_pipelined: bool,
        recomputation: Recomputation | None = None,
    ) -> None:
        module, self._program = _imported(model, batch, is_training=True)
        imported = self._program.model
        machine = configured().machine(_n_ipus(imported))
        self._optimizer = model.optimizer
        trained = for_training(
            pipelined(imported) if is_pipelined else imported,
            Loss(kind="identity", output=self._program.losses[0].output, reduction="none"),
            engine_optimizer(model.optimizer),
            n_rounds,
            n_replicas=machine.n_replicas,
            recomputation=recomputation,
        )
        self.trainer = Trainer(trained, machine)
        self.engine = self.trainer.engine
        self._front = (n_rounds, machine.n_replicas)
        self.weights = _Weights(module, self._program, self.trainer.compiled, self.engine)
        self.is_ahead = False  # whether it has trained since the host had its weights

    @property
    def n_batches(self) -> int:
        """Batches of a step: one for every micro-batch of every replica."""
        return int(np.prod(self._front))

    def step(self, batches: Sequence[Batch]) -> list[dict[str, Any]]:
        """Change the weights by the gradients of batches; return what these gave, as tensors."""
        self.weights.push()
        self.trainer.set_optimiser(engine_optimizer(self._optimizer))
        each = [self._program.take(batch) for batch in batches]
        front = tuple(n for n in self._front if n > 1)
        inputs = {
            name: np.stack([arrays[name] for arrays in each]).reshape(*front, *array.shape)
            for name, array in each[0].items()
        }
        outputs = self.trainer.step(inputs)
        n_front = len(front)
        flat = {
            name: array.reshape(len(batches), *array.shape[n_front:])
            for name, array in outputs.items()
        }
        self._optimizer.iterations.assign_add(1)
        return [
            self._program.give({name: array[number] for name, array in flat.items()})
            for number in range(len(batches))
        ]


class Inference:
    """Predictions, and the loss of labels, for batches of one shape."""

    def __init__(self, model: Any, batch: Batch) -> None:
        module, self._program = _imported(model, batch, is_training=False)
        self.compiled = compile_model(self._program.model, configured().one_replica())
        self.engine = Engine(self.compiled.executable, name="inference")
        self.weights = _Weights(module, self._program, self.compiled, self.engine)

    def run(self, batch: Batch) -> dict[str, Any]:
        """Return predictions and loss, as tensors."""
        self.weights.push()
        inputs = self._program.take(batch)
        values = self.compiled.run(self.engine, inputs, "inference")
        results: dict[str, Any] = self._program.give(values)
        return results
