"""Training: losses, optimisers, and the models that they make of a model for inference."""

from tilescope.engine.training.losses import LOSS_OUTPUT, LOSSES, Loss, for_training
from tilescope.engine.training.optimisers import (
    OPTIMISERS,
    OVERFLOWS,
    AdaDelta,
    Adagrad,
    Adam,
    AdaMax,
    AdamW,
    AutomaticScaling,
    ClipGroup,
    Descent,
    Lamb,
    RmsProp,
    Sgd,
)
from tilescope.engine.training.schedule import SCHEDULES, Schedule

__all__ = [
    "LOSSES",
    "LOSS_OUTPUT",
    "OPTIMISERS",
    "OVERFLOWS",
    "SCHEDULES",
    "AdaDelta",
    "AdaMax",
    "Adagrad",
    "Adam",
    "AdamW",
    "AutomaticScaling",
    "ClipGroup",
    "Descent",
    "Lamb",
    "Loss",
    "RmsProp",
    "Schedule",
    "Sgd",
    "for_training",
]
