"""Virtualised grids for many rows, with sorting and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import dash_ag_grid as dag

#: Numbers are sorted largest first: what costs most is what people look for.
_LARGEST_FIRST = ["desc", "asc", None]
#: A column's own class takes precedence over that of its type, so right alignment is repeated.
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
    """Return the column that fills the remaining width; long names wrap."""
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
    """Return a column of short texts with the full text as a tooltip."""
    return {"field": name, "headerName": title, "width": width, "tooltipField": name}


def change_column(name: str, title: str, *, width: int = 230) -> dict[str, Any]:
    """Return a right-aligned column of formatted differences.

    It is sorted by the row's ``delta``, the number behind the text.
    """
    return {
        "colId": name,
        "field": "delta",
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "cellClass": _RIGHT,
        "sortingOrder": _LARGEST_FIRST,
        "valueFormatter": {"function": f"params.data ? params.data.{name} : ''"},
    }


def share_column(name: str, title: str, *, width: int = 85) -> dict[str, Any]:
    """Return a column of fractions, 0 to 1, shown in percent."""
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "sortingOrder": _LARGEST_FIRST,
        "valueFormatter": {"function": "tilescopePercent(params.value)"},
    }


def life_column() -> dict[str, Any]:
    """Return the column of lifetimes: ``start`` and ``end`` of a row, half-open, or null."""
    return {
        "field": "start",
        "headerName": "Live steps",
        "headerTooltip": "First and last step of its lifetime",
        "width": 112,
        "type": "rightAligned",
        "valueFormatter": {"function": "tilescopeLife(params.data)"},
    }


def number_column(
    name: str, title: str, *, width: int = 110, is_place: bool = False
) -> dict[str, Any]:
    """Return a right-aligned column of integers with thousands separators.

    Numbers of tiles, steps and other places are sorted smallest first.
    """
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        **({} if is_place else {"sortingOrder": _LARGEST_FIRST}),
        "valueFormatter": {"function": "tilescopeCount(params.value)"},
    }


def bytes_column(name: str, title: str, *, width: int = 120) -> dict[str, Any]:
    """Return a column of sizes with the exact number of bytes as a tooltip."""
    return {
        "field": name,
        "headerName": title,
        "width": width,
        "type": "rightAligned",
        "sortingOrder": _LARGEST_FIRST,
        "valueFormatter": {"function": "tilescopeBytes(params.value)"},
        "tooltipValueGetter": {"function": "tilescopeExactBytes(params.value)"},
    }


def address_column(name: str, title: str) -> dict[str, Any]:
    """Return a column of addresses in hexadecimal and decimal."""
    return {
        "field": name,
        "headerName": title,
        "width": 140,
        "type": "rightAligned",
        "cellClass": f"mono {_RIGHT}",
        "valueFormatter": {"function": "tilescopeAddress(params.value)"},
    }


#: Heights in px: row, further line of a wrapped name, header, and the limits of a grid.
_ROW, _LINE, _HEAD, _LOWEST, _HIGHEST = 26, 17, 34, 130, 1200
#: Characters of a name that fit on one line of its column.
_LINE_LETTERS = 42


def grid_style(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return a style that fits the height of a grid to its rows, within limits."""
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
    """Return a grid without rows; ``empty`` is the text shown when there are none."""
    options: dict[str, Any] = {
        "theme": {"function": "tilescopeGridTheme(agGrid)"},
        "rowHeight": 25,
        "headerHeight": 28,
        "tooltipShowDelay": 300,
        "animateRows": False,
        "suppressDragLeaveHidesColumns": True,
        "localeText": {"noRowsToShow": empty},
        # Tab leaves the grid; arrows move within it.
        "tabToNextCell": {"function": "tilescopeLeave(params)"},
        "tabToNextHeader": {"function": "tilescopeLeave(params)"},
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
    """An item with a value in one or both of two reports."""

    @property
    def baseline(self) -> int | None: ...
    @property
    def candidate(self) -> int | None: ...


def only_on(change: _Sided) -> str:
    """Return a suffix for items that only one report has, else an empty string."""
    if change.baseline is None:
        return " (only in candidate)"
    return " (only in baseline)" if change.candidate is None else ""
