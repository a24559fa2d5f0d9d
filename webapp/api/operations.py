"""The graph of operations: its visible boxes and lines, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.graph.operation_graph import (
    GraphSide,
    OperationGraph,
    graph_side,
    operation_graph,
)
from tilescope.analyser.program.operations import Layer, listed_layer
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Key = Annotated[str, Query(max_length=2000)]
_MOST_DEPTH = 99


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/operations``."""
    router = APIRouter(prefix="/operations/{report_id}")

    @router.get("/graph")
    def show_graph(
        report_id: str,
        layer: Layer = "library",
        candidate: Annotated[str, Query(alias="with", max_length=80)] = "",
        toggled: Annotated[
            list[Annotated[str, Query(max_length=2000)]], Query(max_length=500)
        ] = [],  # noqa: B006 - FastAPI copies it
        depth: Annotated[int, Query(ge=0, le=_MOST_DEPTH)] = 0,
        op: _Key = "",
    ) -> dict[str, Any]:
        """Return the graph of one report or of two, whose operations are aligned."""
        view = {"report": report_id, "with": candidate}

        def asked(one: Layer) -> list[GraphSide]:
            sides = library.ask(view, lambda report: graph_side(report, one))
            return [side for side in sides if side is not None]

        listed = listed_layer(layer, lambda one: any(side.listed.operations for side in asked(one)))
        graph = operation_graph(asked(listed), toggled=toggled, depth=depth, chosen=op)
        return {"ok": True, "layer": listed, **_describe(graph)}

    return router


def _describe(graph: OperationGraph) -> dict[str, Any]:
    """Return the fields of a graph; lines are numbers of boxes, and routes lists of x and row."""
    description = asdict(graph)
    for edge in description["edges"]:
        edge["folds"] = [list(fold.values()) for fold in edge["folds"]]
    return description
