"""The fidelity tables: published figures, and what the same programs cost in the simulator.

The programs are built in the checkout only (``tests/fidelity``, ``tests/corpus``); this package
holds their results, and imports nothing of the engine.
"""

from tilescope.engine.fidelity.corpus import packaged_corpus, packaged_version
from tilescope.engine.fidelity.score import Row, Score, packaged_rows, score

__all__ = ["Row", "Score", "packaged_corpus", "packaged_rows", "packaged_version", "score"]
