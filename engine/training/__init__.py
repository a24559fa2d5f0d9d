"""Training: losses, optimisers, and the models that they make of a model for inference."""

from tilescope.engine.training.losses import LOSS_OUTPUT, LOSSES, Loss, for_training
from tilescope.engine.training.sgd import Sgd

__all__ = ["LOSSES", "LOSS_OUTPUT", "Loss", "Sgd", "for_training"]
