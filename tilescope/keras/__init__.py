"""Keras 3 models on the simulated IPU: Graphcore's names for a strategy, stages and accumulation.

Keras runs on PyTorch here, and its models are imported as modules of PyTorch are. `ipu` and `tf`
hold what programs written for Graphcore's TensorFlow take from ``tensorflow.python.ipu`` and
``tensorflow``, as far as it is Keras; `docs/how-to/run-keras-programs.md` tells the rest.
"""

from __future__ import annotations

from tilescope.keras.backend import require_keras

require_keras()

from tilescope.keras import ipu, tf  # noqa: E402 # Keras reads its backend when it is imported
from tilescope.keras.config import IPUConfig  # noqa: E402
from tilescope.keras.stages import PipelineStage  # noqa: E402
from tilescope.keras.strategy import IPUStrategy  # noqa: E402

__all__ = ["IPUConfig", "IPUStrategy", "PipelineStage", "ipu", "tf"]
