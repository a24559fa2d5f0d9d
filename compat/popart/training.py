"""What a training session adds to a model: a loss, an optimizer, recomputation, micro-batches."""

from __future__ import annotations

import glob
from collections.abc import Collection
from dataclasses import dataclass
from math import prod

import onnx

from popart.engine_optimizer import engine_optimizer
from popart.enums import RecomputationType, ReductionType
from popart.errors import popart_exception
from popart.loaded_model import LoadedModel
from popart.node_checks import check_trained_nodes
from popart.optimizers import Optimizer
from popart.options import SessionOptions
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.training import Descent, Loss, for_training
from tilescope.engine.training.modes import in_training_mode

__all__ = ["Trained"]

#: Kinds of recomputation of the engine, by PopART's.
_KINDS = {
    RecomputationType.NoRecompute: "none",
    RecomputationType.Standard: "standard",
    RecomputationType.NormOnly: "norm",
    RecomputationType.RecomputeAll: "all",
    RecomputationType.Pipeline: "none",  # of one IPU, which has no stages
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
                f"accumulationFactor is {options.accumulationFactor}, but"
                " enableGradientAccumulation is False: set both, or neither"
            )

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
        reached = loaded.flow.reached(self.loss)
        check_trained_nodes(loaded.flow.nodes(reached))
        if not gradients and not any(
            p.is_trainable and p.name in reached for p in model.parameters
        ):
            return in_training_mode(model, 0)  # there is nothing to train
        n_rounds = options.accumulationFactor if options.enableGradientAccumulation else 1
        reduction = options.accumulationAndReplicationReductionType
        return for_training(
            model,
            Loss(kind="identity", output=self.loss),
            self.engine_optimizer(options, model),
            int(n_rounds),
            is_averaged=reduction is ReductionType.Mean,
            anchors=list(gradients),
            recomputation=_recomputation(options, proto),
            name=self.loss,
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
        self.optimizer = optimizer
        return replaced


def _recomputation(options: SessionOptions, proto: onnx.ModelProto) -> Recomputation:
    marks: dict[int, list[str]] = {_RECOMPUTE: [], _CHECKPOINT: []}
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.name == _MARK:
                kind = attribute.i or (attribute.ints[0] if attribute.ints else 0)
                if kind in marks:
                    marks[kind].append(glob.escape((node.name or node.output[0]).strip("/")))
    return Recomputation(
        _KINDS[options.autoRecomputation], tuple(marks[_RECOMPUTE]), tuple(marks[_CHECKPOINT])
    )
