"""From model to model: what changes the operations but not their results."""

from tilescope.engine.transform.decompose import decompose
from tilescope.engine.transform.fold_scale import fold_scale
from tilescope.engine.transform.half import in_half
from tilescope.engine.transform.pipeline import PASSES, Pass, Phase, transform
from tilescope.engine.transform.prune import prune

__all__ = ["PASSES", "Pass", "Phase", "decompose", "fold_scale", "in_half", "prune", "transform"]
