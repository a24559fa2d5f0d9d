"""How an operation belongs to others in a training step, as rows with links."""

from __future__ import annotations

from typing import Any

from dash import html

from tilescope.analyser.program.training import origin_words
from tilescope.analyser.program.training_links import RelatedOperation, TrainingLinks
from tilescope.reports.schema.vocabulary import TRAINING_PASSES
from tilescope.webapp.components.links import Reports, page_link

__all__ = ["pass_chip", "training_rows"]

#: Most gradients of an operation that are listed.
_MOST_GRADIENTS = 6


def pass_chip(name: str | None) -> Any:
    """Return a pass with its colour; empty for none."""
    if not name:
        return ""
    item = TRAINING_PASSES[name]
    return html.Span(
        [html.Span(className=f"swatch pass-{item.key}"), item.label], className="pass-chip"
    )


def training_rows(links: TrainingLinks | None, reports: Reports) -> list[tuple[str, Any]]:
    """Return pass, forward operation and gradients as labelled parts; none outside training."""
    if links is None:
        return []
    rows: list[tuple[str, Any]] = [("Pass", pass_chip(links.training_pass))]
    if links.origin is not None:
        words = origin_words(links.training_pass, links.origin.name)
        rows.append(("Belongs to", _link(words, links.origin, reports)))
    if links.gradients:
        shown = [
            _link(related.name, related, reports) for related in links.gradients[:_MOST_GRADIENTS]
        ]
        parts: list[Any] = [part for link in shown for part in (link, ", ")][:-1]
        n_more = len(links.gradients) - len(shown)
        rows.append(("Gradients", html.Span([*parts, f" and {n_more:,} more" if n_more else ""])))
    return rows


def _link(text: str, related: RelatedOperation, reports: Reports) -> html.A:
    """Return a link to the details of an operation of the model."""
    return page_link(
        text, "/operations", reports, layer="model", op=related.key,
        select=f"operation:{related.key}",
    )  # fmt: skip
