"""What programs take from ``tensorflow.python.ipu``, as far as it is Keras."""

from __future__ import annotations

from types import SimpleNamespace

from tilescope.keras.config import IPUConfig
from tilescope.keras.stages import PipelineStage
from tilescope.keras.strategy import IPUStrategy

__all__ = ["config", "ipu_strategy", "keras"]

config = SimpleNamespace(IPUConfig=IPUConfig)
ipu_strategy = SimpleNamespace(IPUStrategy=IPUStrategy)
keras = SimpleNamespace(PipelineStage=PipelineStage)
