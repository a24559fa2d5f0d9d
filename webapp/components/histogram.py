"""A histogram of tiles, with both axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dash import html

from tilescope.webapp.browser import marked

__all__ = ["tile_histogram"]


def tile_histogram(
    edges: Sequence[int],
    n_tiles: Sequence[int],
    text: Callable[[int], str],
    *,
    holds: tuple[str, str],
    of_memory: bool = False,
) -> html.Div:
    """Return bars with a count of tiles upwards and what they have across.

    Of tiles that are all alike, a sentence says as much as a single bar.

    Parameters
    ----------
    edges
        Where bars begin, and where the last one ends.
    n_tiles
        Tiles of each bar.
    text
        A figure of the horizontal axis for people, such as ``1.0 KiB``.
    holds
        What stands between a count of tiles and its figures: ``tile holds``, ``tiles hold``.
    of_memory
        Whether bars have the colour of memory instead of that of compute.
    """

    def said(count: int, low: int, high: int) -> str:
        figures = " to ".join(dict.fromkeys((text(low), text(high))))
        return f"{count:,} {holds[count != 1]} {figures}"

    filled = [index for index, count in enumerate(n_tiles) if count]
    if len(filled) == 1:
        (only,) = filled
        return html.Div(said(n_tiles[only], edges[only], edges[only + 1]))
    largest = max(n_tiles) or 1
    bars = [
        html.Span(
            style={"height": f"{max(100 * count / largest, 2 if count else 0):.1f}%"},
            title=said(count, low, high),
        )
        for count, low, high in zip(n_tiles, edges[:-1], edges[1:], strict=True)
    ]
    label = said(sum(n_tiles), edges[0], edges[-1])
    plot = marked(html.Div(bars, className="histogram-bars", role="img"), aria_label=label)
    ticks = edges[0], (edges[0] + edges[-1]) // 2, edges[-1]
    return html.Div(
        [
            html.Div(
                [html.Span(f"{largest:,} tiles"), html.Span("0")],
                className="histogram-axis is-upwards",
            ),
            plot,
            html.Div(
                [html.Span(tick) for tick in dict.fromkeys(map(text, ticks))],
                className="histogram-axis",
            ),
        ],
        className="histogram" + (" of-memory" if of_memory else ""),
    )
