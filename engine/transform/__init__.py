"""From model to model: what changes the operations but not their results."""

from tilescope.engine.transform.decompose import decompose
from tilescope.engine.transform.fold_scale import fold_scale
from tilescope.engine.transform.half import in_half
from tilescope.engine.transform.pipeline import PASSES, Pass, Phase, transform
from tilescope.engine.transform.prune import prune
from tilescope.engine.transform.serialise import in_batch_parts

__all__ = [
    "PASSES",
    "Pass",
    "Phase",
    "decompose",
    "fold_scale",
    "in_batch_parts",
    "in_half",
    "prune",
    "transform",
]
