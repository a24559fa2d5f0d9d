"""From model to model: what changes the operations but not their results."""

from engine.transform.prune import prune

__all__ = ["prune"]
