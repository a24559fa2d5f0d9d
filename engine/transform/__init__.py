"""From model to model: what changes the operations but not their results."""

from tilescope.engine.transform.prune import prune

__all__ = ["prune"]
