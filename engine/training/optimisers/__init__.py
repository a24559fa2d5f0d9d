"""Optimisers: how gradients change weights."""

from collections.abc import Mapping

from tilescope.engine.training.optimisers.adam import Adam, AdaMax, AdamW, Lamb
from tilescope.engine.training.optimisers.adaptive import AdaDelta, Adagrad, RmsProp
from tilescope.engine.training.optimisers.clipping import ClipGroup
from tilescope.engine.training.optimisers.descent import Descent
from tilescope.engine.training.optimisers.loss_scaling import OVERFLOWS, AutomaticScaling
from tilescope.engine.training.optimisers.sgd import Sgd

__all__ = [
    "OPTIMISERS",
    "OVERFLOWS",
    "AdaDelta",
    "AdaMax",
    "Adagrad",
    "Adam",
    "AdamW",
    "AutomaticScaling",
    "ClipGroup",
    "Descent",
    "Lamb",
    "RmsProp",
    "Sgd",
]

#: By name.
OPTIMISERS: Mapping[str, type[Descent]] = {
    optimiser.kind: optimiser
    for optimiser in (AdaDelta, Adagrad, Adam, AdaMax, AdamW, Lamb, RmsProp, Sgd)
}
