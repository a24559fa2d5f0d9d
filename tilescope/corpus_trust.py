"""The expected errors by kind for what reads reports, which must not import the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.analyser.advice.trust import Trust

__all__ = ["packaged_trust"]


def packaged_trust() -> Trust:
    """Return the expected errors of the corpus packaged with this version."""
    from tilescope.analyser.advice.trust import UNKNOWN, KindTrust, Trust
    from tilescope.engine.fidelity.corpus import packaged_corpus
    from tilescope.engine.fidelity.corpus_text import as_spread

    corpus = packaged_corpus()
    return Trust(
        corpus.version,
        tuple(
            KindTrust(
                score.kind,
                score.machine,
                as_spread(score.cycles) if score.n_complete else UNKNOWN,
                as_spread(score.memory) if score.n_complete else UNKNOWN,
                score.n_complete,
            )
            for score in corpus.scores
        ),
    )
