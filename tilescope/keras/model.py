"""Keras's models whose training, evaluation and prediction run on the IPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from keras.src import tree
from keras.src.trainers.data_adapters import data_adapter_utils

from tilescope.engine.errors import BadInput, BadOption
from tilescope.engine.ir import Recomputation
from tilescope.keras.capture import LOSS, PREDICTIONS
from tilescope.keras.programs import Inference, Training
from tilescope.keras.stages import PipelineStageAssignment, stage_of

__all__ = ["IPUModel", "on_ipu"]

if TYPE_CHECKING:
    _Model: Any
else:
    _Model = object  # the classes that `on_ipu` makes are Keras's, too


class IPUModel(_Model):
    """What a model has in the scope of a strategy, beside what Keras gives it.

    Keras's own loops call the functions that this class makes; callbacks, metrics and histories
    are Keras's. Metrics are computed on the host from the predictions that the device returns.
    """

    train_function: Any
    test_function: Any
    predict_function: Any

    _ipu_accumulation = 0
    _ipu_is_pipelined = False
    _ipu_recomputation: Recomputation | None = None

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        **others: Any,
    ) -> None:
        """Let weights change after a number of batches, by the mean of their gradients.

        Parameters
        ----------
        gradient_accumulation_steps_per_replica
            Batches of a step on every replica.
        **others
            Of Graphcore's; without effect.

        Raises
        ------
        BadOption
            When the number is below 1.
        """
        _warn_of(others, "set_gradient_accumulation_options")
        self._ipu_set_accumulation(gradient_accumulation_steps_per_replica)

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        recomputation_mode: Any = None,
        **others: Any,
    ) -> None:
        """Let the stages of the model work at a time, on batches that follow each other.

        Parameters
        ----------
        gradient_accumulation_steps_per_replica
            Batches of a step on every replica.
        recomputation_mode
            Anything that is not None: all of a stage is computed again for its backward pass.
        **others
            Of Graphcore's; without effect.

        Raises
        ------
        BadOption
            When the number is below 1.
        """
        _warn_of(others, "set_pipelining_options")
        self._ipu_set_accumulation(gradient_accumulation_steps_per_replica)
        kind = None if recomputation_mode is None else Recomputation("pipeline")
        object.__setattr__(self, "_ipu_recomputation", kind)

    def _ipu_set_accumulation(self, n: int | None) -> None:
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
            raise BadOption(
                f"gradient_accumulation_steps_per_replica is {n!r}: give a number from 1"
            )
        object.__setattr__(self, "_ipu_accumulation", n or 0)
        self.__dict__.pop("_ipu_training", None)

    def get_pipeline_stage_assignment(self) -> list[PipelineStageAssignment]:
        """Return the stages of the layers, in the order of the model."""
        return [PipelineStageAssignment(layer, stage_of(layer)) for layer in self.layers]

    def set_pipeline_stage_assignment(self, assignment: Sequence[Any]) -> None:
        """Give every layer its stage.

        Parameters
        ----------
        assignment
            A number for every layer, or what `get_pipeline_stage_assignment` returns.

        Raises
        ------
        BadInput
            When there are more or fewer than the model has layers.
        """
        if len(assignment) != len(self.layers):
            raise BadInput(
                f"The model has {len(self.layers)} layers, and {len(assignment)} stages are given:"
                " give one for every layer"
            )
        for layer, given in zip(self.layers, assignment, strict=True):
            stage = getattr(given, "pipeline_stage", given)
            object.__setattr__(getattr(given, "layer", layer), "_ipu_stage", stage)

    def reset_pipeline_stage_assignment(self) -> None:
        """Take the stages of all layers back."""
        for layer in self.layers:
            object.__setattr__(layer, "_ipu_stage", None)

    def make_train_function(self, force: bool = False) -> None:
        """Let the device train when Keras asks for a step."""
        if self.train_function is None or force:
            self.train_function = self._ipu_train

    def make_test_function(self, force: bool = False) -> None:
        """Let the device compute predictions and losses when Keras evaluates."""
        if self.test_function is None or force:
            self.test_function = self._ipu_test

    def make_predict_function(self, force: bool = False) -> None:
        """Let the device compute predictions."""
        if self.predict_function is None or force:
            self.predict_function = self._ipu_predict

    def train(self, mode: bool = True) -> Any:
        """Change the mode as PyTorch does; after an epoch, the weights come back to the host."""
        if not mode:
            self.ipu_weights_to_host()
        return super().train(mode)

    def ipu_weights_to_host(self) -> None:
        """Copy the weights that the device has trained into the model's variables."""
        for program in self.__dict__.get("_ipu_training", {}).values():
            if program.is_ahead:
                program.weights.pull()
                program.is_ahead = False

    def _ipu_programs(self, kind: str) -> dict[Any, Any]:
        programs: dict[Any, Any] = self.__dict__.setdefault(f"_ipu_{kind}", {})
        return programs

    def _ipu_train(self, data: Sequence[Any]) -> dict[str, Any]:
        batches = [_unpacked(batch) for batch in data]
        n_batches = self._ipu_check(batches)
        logs: dict[str, Any] = {}
        for start in range(0, len(batches), n_batches):
            part = batches[start : start + n_batches]
            program = self._ipu_training_of(part)
            for batch, results in zip(part, program.step(part), strict=True):
                logs = self._ipu_logs(batch, results)
            program.is_ahead = True
        return logs

    def _ipu_training_of(self, batches: Sequence[Any]) -> Training:
        programs = self._ipu_programs("training")
        key = _key(batches[0])
        if any(_key(batch) != key for batch in batches[1:]):
            raise BadInput(
                "The batches of a step have different shapes: drop the remainder of the data, for"
                " example by batch(…, drop_remainder=True)"
            )
        if key not in programs:
            self.ipu_weights_to_host()
            programs[key] = Training(
                self,
                batches[0],
                self._ipu_accumulation or 1,
                is_pipelined=self._ipu_has_stages,
                recomputation=self._ipu_recomputation,
            )
        for other, program in programs.items():
            if other != key and program.is_ahead:
                program.weights.pull()
                program.is_ahead = False
        found: Training = programs[key]
        return found

    @property
    def _ipu_has_stages(self) -> bool:
        return any(stage_of(layer) is not None for layer in self.layers)

    def _ipu_check(self, batches: Sequence[Any]) -> int:
        """Return how many batches a step takes.

        Raises
        ------
        BadInput
            When those that Keras gives at a time are no multiple.
        """
        n = self._ipu_training_of(batches[:1]).n_batches
        if len(batches) % n:
            raise BadInput(
                f"A step takes {n} batches (gradient accumulation × replicas), and Keras gives"
                f" {len(batches)} at a time: compile the model with steps_per_execution={n}, or a"
                " multiple, which has to divide the batches of an epoch"
            )
        return n

    def _ipu_test(self, data: Sequence[Any]) -> dict[str, Any]:
        logs: dict[str, Any] = {}
        for given in data:
            batch = _unpacked(given)
            logs = self._ipu_logs(batch, self._ipu_inference_of(batch).run(batch))
        return logs

    def _ipu_predict(self, data: Sequence[Any]) -> Any:
        results = [
            self._ipu_inference_of(batch).run(batch)[PREDICTIONS]
            for given in data
            for batch in [_unpacked(given)[:1]]
        ]
        if len(results) == 1:
            return results[0]
        return tree.map_structure(lambda *parts: torch.cat(parts), *results)

    def _ipu_inference_of(self, batch: Any) -> Inference:
        self.ipu_weights_to_host()
        programs = self._ipu_programs("inference")
        key = _key(batch)
        if key not in programs:
            programs[key] = Inference(self, batch)
        found: Inference = programs[key]
        return found

    def _ipu_logs(self, batch: Any, results: dict[str, Any]) -> dict[str, Any]:
        """Count a batch in the metrics, and return them."""
        x, y = batch[0], batch[1] if len(batch) > 1 else None
        weight = batch[2] if len(batch) > 2 else None
        self._loss_tracker.update_state(results[LOSS], sample_weight=tree.flatten(x)[0].shape[0])
        logs: dict[str, Any] = self.compute_metrics(x, y, results[PREDICTIONS], weight)
        return logs


@cache
def on_ipu(kind: type) -> type:
    """Return the class of a model that runs on the IPU, under the name of its own class."""
    if issubclass(kind, IPUModel):
        return kind
    made = type(kind.__name__, (IPUModel, kind), {"__module__": kind.__module__})
    made.__qualname__ = kind.__qualname__
    return made


def _unpacked(data: Any) -> tuple[Any, ...]:
    """Return inputs, labels and weights of samples, as far as there are."""
    x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
    if weight is not None:
        return x, y, weight
    return (x,) if y is None else (x, y)


def _key(batch: Any) -> Any:
    """Return what tells the programs of batches apart: structure, shapes and types."""
    leaves = tree.flatten(batch)
    return str(tree.map_structure(lambda _: 0, batch)), tuple(
        (tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves
    )


def _warn_of(others: dict[str, Any], function: str) -> None:
    for name in others:
        warnings.warn(f"{function}: {name} has no effect", stacklevel=3)
