"""The fidelity table: published figures, and what the same programs cost in the simulator.

The programs are built in the checkout only (``tests/fidelity``); this package holds their result.
"""

from tilescope.engine.fidelity.score import Row, Score, packaged_rows, score

__all__ = ["Row", "Score", "packaged_rows", "score"]
