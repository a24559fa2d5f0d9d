"""What a training session adds to a model: a loss, an optimizer, recomputation, micro-batches."""

from __future__ import annotations

import copy
import glob
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.effect import warn_once
from popart.engine_optimizer import engine_optimizer
from popart.enums import GradientTensorTrackingMethod, RecomputationType, ReductionType
from popart.errors import popart_exception
from popart.loaded_model import LoadedModel
from popart.locations import with_state_shards
from popart.node_refusals import check_trained_nodes
from popart.optimizers import Optimizer
from popart.optimizers.scalars import scalars_of
from popart.options import SessionOptions
from popart.replication import replicas_of
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.training import Descent, Loss, for_training
from tilescope.engine.training.modes import in_training_mode

__all__ = ["FINAL_LOSS_SCALE", "Trained", "refuse_training_options"]

#: Name of the tensor that has the loss scaling that the device chose.
FINAL_LOSS_SCALE = "finalLossScale"  # Source: graphcore/popart, automaticlossscaling.cpp

#: Kinds of recomputation of the engine, by PopART's.
_KINDS = {
    RecomputationType.NoRecompute: "none",
    RecomputationType.Standard: "standard",
    RecomputationType.NormOnly: "norm",
    RecomputationType.RecomputeAll: "all",
    RecomputationType.Pipeline: "pipeline",
}

#: Attribute of nodes that are computed again, or that stay. Source: graphcore/popart,
#: willow/include/popart/names.hpp: sRecomputeOutputAttribute; recompute.hpp: RecomputeType.
_MARK, _RECOMPUTE, _CHECKPOINT = "__recompute_output_in_backward_pass", 2, 1


@dataclass
class Trained:
    """How a session trains.

    Parameters
    ----------
    loss
        Name of the tensor that is minimised.
    optimizer
        PopART's.
    """

    loss: str
    optimizer: Optimizer

    def check(self, options: SessionOptions) -> None:
        """Refuse what does not go together.

        Raises
        ------
        popart_exception
            Names the option.
        """
        if not options.enableGradientAccumulation and options.accumulationFactor > 1:
            raise popart_exception(
                "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable"
                " gradient accumulation, or set the accumulationFactor to 1"
            )

        settings = options.automaticLossScalingSettings
        if settings.enabled:
            _check_scaling(self.optimizer, options)

    def scalars(
        self, weights: Iterable[tuple[str, str]], options: SessionOptions
    ) -> dict[str, NDArray[Any]]:
        """Return the numbers of the optimizer that a program reads, by the names of their tensors.

        Parameters
        ----------
        weights
            Names of the weights, and their types as PopART calls them.
        options
            Of the session.
        """
        is_mean = options.accumulationAndReplicationReductionType is ReductionType.Mean
        accumulates = options.enableGradientAccumulation and is_mean
        divisor = int(options.accumulationFactor) if accumulates else 1
        scalars = {
            name: np.asarray(number, "float16" if name.endswith("FLOAT16") else "float32")
            for name, number in scalars_of(self.optimizer, weights, divisor).items()
        }
        if options.automaticLossScalingSettings.enabled:
            scalars[FINAL_LOSS_SCALE] = np.asarray(self.optimizer.lossScaling.val(), np.float32)
        return scalars

    def model_of(
        self,
        loaded: LoadedModel,
        proto: onnx.ModelProto,
        gradients: Collection[str],
        options: SessionOptions,
    ) -> Model:
        """Return the model that trains another one.

        Parameters
        ----------
        loaded
            A model whose first output is the loss.
        proto
            The ONNX model, which has the marks of recomputation.
        gradients
            Names of tensors whose gradients are outputs.
        options
            Of the session.

        Raises
        ------
        popart_exception
            When the loss is no scalar, a node has no gradient in its form, or the optimizer has a
            form that the engine lacks.
        BadModel, BadInput, BadOption
            When the model cannot be trained.
        """
        model = loaded.model
        loss = dict(model.outputs)[self.loss]
        if prod(loss.shape) > 1:
            raise popart_exception(f"Loss tensor, '{self.loss}', must be a scalar tensor")
        if options.automaticLossScalingSettings.enabled:
            _check_halves(model, options)
        reached = loaded.flow.reached(self.loss)
        check_trained_nodes(loaded.flow.nodes(reached))
        if not gradients and not any(
            p.is_trainable and p.name in reached for p in model.parameters
        ):
            return in_training_mode(model, 0, replicas_of(options))  # there is nothing to train
        n_rounds = options.accumulationFactor if options.enableGradientAccumulation else 1
        reduction = options.accumulationAndReplicationReductionType
        loss = dict(model.outputs)[self.loss]
        optimiser = self.engine_optimizer(options, model)
        return for_training(
            with_state_shards(model, optimiser),
            Loss(kind="identity", output=self.loss),
            optimiser,
            int(n_rounds),
            n_replicas=replicas_of(options),
            is_averaged=reduction is ReductionType.Mean,
            anchors=list(gradients),
            recomputation=_recomputation(options, proto),
            name=self.loss if not loss.shape else f"{self.loss}/scalar",
        )

    def engine_optimizer(self, options: SessionOptions, model: Model) -> Descent:
        """Return the engine's optimizer."""
        weights = [p.name for p in model.parameters if p.is_trainable]
        return engine_optimizer(self.optimizer, options, weights)

    def changed(self, optimizer: Optimizer, options: SessionOptions, model: Model) -> Descent:
        """Return the engine's optimizer of another one that takes this one's place.

        Raises
        ------
        popart_runtime_error
            When it cannot: constants differ, or it is another kind.
        """
        self.optimizer.validReplacement(optimizer)
        replaced = Trained(self.loss, optimizer).engine_optimizer(options, model)
        known = self.engine_optimizer(options, model)
        self.optimizer = copy.deepcopy(optimizer)
        if known.scaling is None:
            return replaced
        return replace(replaced, scaling=known.scaling)  # the device has chosen another since


def refuse_training_options(options: SessionOptions) -> None:
    """Refuse what an inference does not have.

    Raises
    ------
    popart_exception
        Names the option.
    """
    if options.enableGradientAccumulation:
        raise popart_exception("Gradient Accumulation only available when training.")
    if options.automaticLossScalingSettings.enabled:
        raise popart_exception(f"{_SCALING} Only compatible when doing training")


#: What PopART's messages about automatic loss scaling begin with.
_SCALING = "[AutomaticLossScale transform]"


def _check_scaling(optimizer: Optimizer, options: SessionOptions) -> None:
    """Refuse settings of automatic loss scaling that do not go together.

    Raises
    ------
    popart_exception
        Names the setting.
    """
    settings = options.automaticLossScalingSettings
    if optimizer.lossScaling.isConst():
        raise popart_exception(f"{_SCALING} The optimizer must have non-const loss scaling")
    if options.enablePipelining and not options.enableGradientAccumulation:
        raise popart_exception(
            f"{_SCALING} Automatic loss scaling is not currently supported when the"
            " 'enablePipelining' SessionOption is set to 'true', but the"
            " 'enableGradientAccumulation' SessionOption is set to 'false'"
        )
    if not 0 <= settings.thresholdUpperCountProportion <= 1:
        raise popart_exception(
            "Out of range value for 'thresholdUpperCountProportion'. The current value is"
            f" {settings.thresholdUpperCountProportion:g}, but it should be in the range [0, 1]."
        )
    if not 0 <= settings.binEdgeLocation <= 1:
        raise popart_exception(
            f"{_SCALING} Out of range value for 'binEdgeLocation'. The current value is"
            f" {settings.binEdgeLocation:g}, but it should be in the range [0, 1]."
        )
    is_by_user = (
        settings.gradientTensorTrackingMethod
        is GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    )
    if settings.toTrackTensors is not None and not is_by_user:
        raise popart_exception(
            f"{_SCALING} toTrackTensors has been set, but gradientTensorTrackingMethod has not been"
            " set to 'GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors'."
        )
    if settings.toTrackTensors is None and is_by_user:
        raise popart_exception(
            f"{_SCALING} gradientTensorTrackingMethod set to"
            " 'GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors' but 'toTrackTensors'"
            " has not been set"
        )


def _check_halves(model: Model, options: SessionOptions) -> None:
    """Refuse to choose a loss scaling where nothing is in half.

    Raises
    ------
    popart_exception
        When no value is.
    """
    if options.automaticLossScalingSettings.toTrackTensors is not None:
        warn_once(
            "SessionOptions.automaticLossScalingSettings.toTrackTensors",
            "the scale follows the gradients of weights",
        )
        return
    values = [*model.parameters, *(v for op in model.operations for v in op.results)]
    if not any(value.dtype == "float16" for value in values):
        raise popart_exception(f"{_SCALING} No tracked gradient tensors of type fp16 were found.")


def _recomputation(options: SessionOptions, proto: onnx.ModelProto) -> Recomputation:
    marks: dict[int, list[str]] = {_RECOMPUTE: [], _CHECKPOINT: []}
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.name == _MARK:
                kind = attribute.i or (attribute.ints[0] if attribute.ints else 0)
                if kind in marks:
                    marks[kind].append(glob.escape((node.name or node.output[0]).strip("/")))
    kind = _KINDS[options.autoRecomputation]
    if kind == "pipeline" and not options.enablePipelining:
        kind = "none"  # nothing has stages
    return Recomputation(kind, tuple(marks[_RECOMPUTE]), tuple(marks[_CHECKPOINT]))
