"""The fidelity table: published figures, and what the same programs cost in the simulator."""

from engine.fidelity.score import Row, Score, packaged_rows, score
from engine.fidelity.target import Figure, Target, all_targets

__all__ = ["Figure", "Row", "Score", "Target", "all_targets", "packaged_rows", "score"]
