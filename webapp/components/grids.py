"""Grids of many rows: sortable, filtered, drawn only as far as they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag

#: A column's own class goes before that of its type, which puts cells to the right.
_RIGHT = "ag-right-aligned-cell"

__all__ = [
    "address_column",
    "bytes_column",
    "change_column",
    "grid",
    "number_column",
    "text_column",
]


def text_column(name: str, title: str, *, flex: int = 1) -> dict[str, Any]:
    """Return a column of texts; the full text shows on hover."""
    return {
        "field": name,
        "headerName": title,
        "flex": flex,
        "minWidth": 120,
        "tooltipField": name,
    }


def change_column(name: str, title: str, *, flex: int = 1) -> dict[str, Any]:
    """Return a column of texts that say by how much numbers beside them differ, to the right."""
    return {**text_column(name, title, flex=flex), "type": "rightAligned", "cellClass": _RIGHT}


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
        "width": 150,
        "type": "rightAligned",
        "cellClass": f"mono {_RIGHT}",
        "valueFormatter": {"function": "tilescopeAddress(params.value)"},
    }


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
        style={"height": "340px"},
    )
