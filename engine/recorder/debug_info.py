"""Debug contexts as a file of their own, for scripts that open a ``debug.cbor`` beside a report.

The format is TileScope's own, in CBOR (RFC 8949): Poplar's is not published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["DEBUG_INFO", "debug_info"]

#: Name of the file, beside ``profile.pop``.
DEBUG_INFO = "debug.cbor"
_VERSION = 1


def debug_info(rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return the content of a ``debug.cbor``.

    Parameters
    ----------
    rows
        Rows of the report's table of debug contexts, parents first.

    Returns
    -------
    bytes
        A map with ``format``, ``version`` and ``contexts``: a list of maps with the columns of the
        table ``debug_context``.
    """
    import cbor2  # reports without it do not wait for it

    named = {"format": "tilescope debug contexts", "version": _VERSION}
    return cbor2.dumps(named | {"contexts": [dict(row) for row in rows]})
