"""The program tree, loaded one level at a time, and its search."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.programs import ProgramNode, children, node, roots, search
from tilescope.webapp.library import Library

__all__ = ["routes"]

#: Maximum number of children per response; a program may have tens of thousands.
_PAGE = 500


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/programs``."""
    router = APIRouter(prefix="/programs/{report_id}")

    @router.get("/roots")
    def list_roots(report_id: str) -> dict[str, Any]:
        """Return the control programs and functions."""
        with library.opened(report_id) as report:
            nodes = roots(report)
        return {"ok": True, "nodes": [_describe(node) for node in nodes]}

    @router.get("/children")
    def list_children(
        report_id: str,
        program: Annotated[int, Query(ge=0)],
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = _PAGE,
    ) -> dict[str, Any]:
        """Return a page of a program's children and their total number."""
        with library.opened(report_id) as report:
            nodes = children(report, program)
        part = nodes[offset : offset + limit]
        return {
            "ok": True,
            "n_children": len(nodes),
            "offset": offset,
            "nodes": [_describe(child) for child in part],
        }

    @router.get("/path")
    def find_path(report_id: str, program: Annotated[int, Query(ge=0)]) -> dict[str, Any]:
        """Return a program and its ancestors from the root inwards, with their positions."""
        with library.opened(report_id) as report:
            details = node(report, program)
        path = (*details.path, details.node)
        places = [{"id": entry.program_id, "position": entry.position} for entry in path]
        return {"ok": True, "path": places}

    @router.get("/search")
    def find_programs(
        report_id: str,
        text: Annotated[str, Query(min_length=1, max_length=200)],
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = 200,
    ) -> dict[str, Any]:
        """Return the first programs whose kind or name contains a text."""
        with library.opened(report_id) as report:
            found = search(report, text, limit)
        matches = [
            {"program": match.node.program_id, "label": match.node.label} for match in found.matches
        ]
        return {"ok": True, "n_matches": found.n_matches, "matches": matches}

    return router


def _describe(program: ProgramNode) -> dict[str, Any]:
    """Return the fields of a row of the tree."""
    return {
        "id": program.program_id,
        "label": program.label,
        "kind": program.kind,
        "name": program.name,
        "phase": program.phase,
        "n_children": program.n_children,
        "n_tiles": program.n_tiles,
        "repeat_count": program.repeat_count,
        "position": program.position,
        "root_kind": program.root_kind,
        "root_index": program.root_index,
    }
