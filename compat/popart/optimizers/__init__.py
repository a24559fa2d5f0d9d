"""Optimizers as values: hyperparameters by tensor, constant or not, and their checks.

A session maps them to the optimizers of the engine.
"""

from __future__ import annotations

from popart.optimizers.adam import Adam
from popart.optimizers.adaptive import Adaptive
from popart.optimizers.clip_norm import ClipNormSettings
from popart.optimizers.optimizer import Optimizer
from popart.optimizers.sgd import SGD, ConstSGD
from popart.optimizers.value import OptimizerValue, OptimizerValueMap

__all__ = [
    "SGD",
    "Adam",
    "Adaptive",
    "ClipNormSettings",
    "ConstSGD",
    "Optimizer",
    "OptimizerValue",
    "OptimizerValueMap",
]
