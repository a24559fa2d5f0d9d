"""Batch serialisation: a model computed on one part of its batch after another."""

from __future__ import annotations

from popart.effect import warn_once
from popart.enums import (
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
)
from popart.errors import popart_exception
from popart.options import SessionOptions
from tilescope.engine.ir import Model
from tilescope.engine.transform.serialise import in_batch_parts

__all__ = ["serialised"]


def serialised(model: Model, options: SessionOptions, *, is_trained: bool) -> Model:
    """Return a model in the parts that a session asks for; itself where it asks for none.

    Raises
    ------
    popart_exception
        When a loop over the parts is to be trained.
    """
    settings = options.batchSerializationSettings
    if settings.factor < 2:
        return model
    is_forward = settings.transformContext is BatchSerializationTransformContext.Fwd
    is_loop = settings.method is BatchSerializationMethod.Loop
    if is_loop and is_forward and is_trained:
        raise popart_exception(
            "Loop batch serialization is only supported in BatchSerializationTransformContext::Bwd"
            " due to LoopGradOp missing."
        )
    name = "SessionOptions.batchSerializationSettings"
    if not is_forward and is_trained:
        warn_once(f"{name}.transformContext", "the backward pass has the parts of the forward one")
    if is_loop:
        warn_once(f"{name}.method", "parts follow one another, and share their code as functions")
    if settings.batchSchedule not in (
        BatchSerializationBatchSchedule.Isomorphic,
        BatchSerializationBatchSchedule.Scheduler,
    ):
        warn_once(f"{name}.batchSchedule", "nothing is loaded from outside between two parts")
    borders = {
        "ipu": settings.concatOnVirtualGraphChange,
        "stage": settings.concatOnPipelineStageChange,
        "phase": settings.concatOnExecutionPhaseChange,
    }
    joined = [border for border, is_joined in borders.items() if is_joined]
    return in_batch_parts(model, settings.factor, joined)
