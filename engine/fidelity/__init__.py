"""The fidelity table: published figures, and what the same programs cost in the simulator."""

from tilescope.engine.fidelity.score import Row, Score, packaged_rows, score
from tilescope.engine.fidelity.target import Figure, Target, all_targets

__all__ = ["Figure", "Row", "Score", "Target", "all_targets", "packaged_rows", "score"]
