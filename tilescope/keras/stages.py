"""Stages of a pipeline: which layer is in which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from tilescope.engine.errors import BadOption

__all__ = ["PipelineStage", "PipelineStageAssignment", "stage_of"]


@dataclass
class PipelineStageAssignment:
    """The stage of a layer.

    Parameters
    ----------
    layer
        The layer.
    pipeline_stage
        Number of the stage, from 0; None where none is given.
    """

    layer: Any
    pipeline_stage: int | None = None


class PipelineStage:
    """Layers that are called in this context belong to a stage of a pipeline.

    Parameters
    ----------
    stage
        Number of the stage, from 0.

    Raises
    ------
    BadOption
        When the number is negative.
    """

    def __init__(self, stage: int) -> None:
        if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
            raise BadOption(f"PipelineStage takes a number from 0, not {stage!r}")
        self._stage = stage
        self._entered: list[Any] = []

    def __enter__(self) -> PipelineStage:
        """Begin the stage."""
        call = keras.layers.Layer.__call__
        stage = self._stage

        def noting(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(layer, "_ipu_stage", None) is None:
                object.__setattr__(layer, "_ipu_stage", stage)
            return call(layer, *args, **kwargs)

        self._entered.append(call)
        keras.layers.Layer.__call__ = noting
        return self

    def __exit__(self, *_: object) -> None:
        """End the stage."""
        keras.layers.Layer.__call__ = self._entered.pop()


def stage_of(layer: Any) -> int | None:
    """Return the stage of a layer; None where none is given."""
    stage: int | None = getattr(layer, "_ipu_stage", None)
    return stage
