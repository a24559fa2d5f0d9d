"""Grids of many rows: sortable, filtered, drawn only as far as they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import dash_ag_grid as dag

#: A column's own class takes precedence over that of its type, which puts cells to the right.
_RIGHT = "ag-right-aligned-cell"

__all__ = [
    "address_column",
    "bytes_column",
    "change_column",
    "grid",
    "grid_style",
    "life_column",
    "name_column",
    "number_column",
    "only_on",
    "share_column",
    "text_column",
]


def name_column(name: str, title: str) -> dict[str, Any]:
    """Return the column that takes the room that is left; a long name goes on in the next line."""
    return {
        "field": name,
        "headerName": title,
        "flex": 1,
        "minWidth": 220,
        "wrapText": True,
        "autoHeight": True,
        "cellClass": "grid-name",
    }


def text_column(name: str, title: str, *, width: int = 120) -> dict[str, Any]:
    """Return a column of short texts; the full text shows on hover."""
    return {"field": name, "headerName": title, "width": width, "tooltipField": name}


def change_column(name: str, title: str, *, width: int = 230) -> dict[str, Any]:
    """Return a column of texts that say by how much numbers beside them differ, to the right.

    It is sorted by ``delta`` of the row, the number behind the text.
    """
    return {
        "colId": name,
        "field": "delta",
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "cellClass": _RIGHT,
        "valueFormatter": {"function": f"params.data ? params.data.{name} : ''"},
    }


def share_column(name: str, title: str, *, width: int = 85) -> dict[str, Any]:
    """Return a column of shares, 0 to 1, written in percent."""
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "valueFormatter": {"function": "tilescopePercent(params.value)"},
    }


def life_column() -> dict[str, Any]:
    """Return the column of lifetimes: ``start`` and ``end`` of a row, half-open, or null."""
    return {
        "field": "start",
        "headerName": "Live steps",
        "headerTooltip": "First and last step at which it is live",
        "width": 112,
        "type": "rightAligned",
        "valueFormatter": {"function": "tilescopeLife(params.data)"},
    }


def number_column(name: str, title: str, *, width: int = 110) -> dict[str, Any]:
    """Return a column of whole numbers with thousands separated, to the right."""
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "valueFormatter": {"function": "tilescopeCount(params.value)"},
    }


def bytes_column(name: str, title: str, *, width: int = 120) -> dict[str, Any]:
    """Return a column of sizes; the exact number of bytes shows on hover."""
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "valueFormatter": {"function": "tilescopeBytes(params.value)"},
        "tooltipValueGetter": {"function": "tilescopeExactBytes(params.value)"},
    }


def address_column(name: str, title: str) -> dict[str, Any]:
    """Return a column of addresses, hexadecimal with the decimal number beside."""
    return {
        "field": name,
        "headerName": title,
        "width": 140,
        "type": "rightAligned",
        "cellClass": f"mono {_RIGHT}",
        "valueFormatter": {"function": "tilescopeAddress(params.value)"},
    }


#: Height of a row, of each further line of a long name, of the head; and the bounds of a grid, px.
_ROW, _LINE, _HEAD, _LOWEST, _HIGHEST = 26, 17, 34, 130, 340
#: Letters of a name that surely fit a line of its column.
_LINE_LETTERS = 42


def grid_style(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the style of a grid that is as high as its rows need, within bounds."""
    height = _HEAD
    for row in rows:
        height += _ROW + _LINE * (len(str(row.get("name", ""))) // _LINE_LETTERS)
        if height > _HIGHEST:
            break
    return {"height": f"{min(max(height, _LOWEST), _HIGHEST)}px"}


def grid(
    component_id: str,
    columns: Sequence[dict[str, Any]],
    *,
    empty: str,
    selects: bool = False,
) -> dag.AgGrid:
    """Return a grid without rows yet; ``empty`` says what to do when there are none."""
    options: dict[str, Any] = {
        "theme": {"function": "tilescopeGridTheme(agGrid)"},
        "rowHeight": 25,
        "headerHeight": 28,
        "tooltipShowDelay": 300,
        "animateRows": False,
        "suppressDragLeaveHidesColumns": True,
        "localeText": {"noRowsToShow": empty},
        "enableCellTextSelection": True,
        "ensureDomOrder": True,
    }
    if selects:
        options["rowSelection"] = {
            "mode": "singleRow", "checkboxes": False, "enableClickSelection": True,
        }  # fmt: skip
    return dag.AgGrid(
        id=component_id,
        columnDefs=list(columns),
        rowData=[],
        defaultColDef={"sortable": True, "resizable": True, "suppressMovable": True},
        dashGridOptions=options,
        className="grid",
        style=grid_style([]),
    )


class _Sided(Protocol):
    """Something that two reports are compared by."""

    @property
    def baseline(self) -> int | None: ...
    @property
    def candidate(self) -> int | None: ...


def only_on(change: _Sided) -> str:
    """Return which side alone has something; nothing when both have it."""
    if change.baseline is None:
        return " (only in candidate)"
    return " (only in baseline)" if change.candidate is None else ""
