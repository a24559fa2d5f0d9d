"""The program tree, loaded one level at a time, and its search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.diff import (
    ProgramPair,
    pair_path,
    paired_children,
    paired_roots,
    search_pairs,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.associated import associated_programs
from tilescope.analyser.program.program_tree import ProgramNode
from tilescope.analyser.program.programs import (
    children,
    node,
    program_cycles,
    roots,
    search,
)
from tilescope.analyser.quantities import format_change_of, format_runs
from tilescope.analyser.time.execution import execution
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Candidate = Annotated[str, Query(alias="with", min_length=1, max_length=80)]
_Number = Annotated[int | None, Query(ge=0)]
#: Maximum number of children per response; a program may have tens of thousands.
_PAGE = 500


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/programs``."""
    router = APIRouter(prefix="/programs/{report_id}")

    @router.get("/roots")
    def list_roots(report_id: str) -> dict[str, Any]:
        """Return the control programs and functions."""
        with library.opened(report_id) as report:
            nodes, cycles = roots(report), program_cycles(report)
            runs = format_runs(execution(report).n_runs)
        return {"ok": True, "runs": runs, "nodes": [_describe(node, cycles) for node in nodes]}

    @router.get("/children")
    def list_children(
        report_id: str,
        program: Annotated[int, Query(ge=0)],
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = _PAGE,
    ) -> dict[str, Any]:
        """Return a page of a program's children and their total number."""
        with library.opened(report_id) as report:
            nodes, cycles = children(report, program), program_cycles(report)
        part = nodes[offset : offset + limit]
        return {
            "ok": True,
            "n_children": len(nodes),
            "offset": offset,
            "nodes": [_describe(child, cycles) for child in part],
        }

    @router.get("/path")
    def find_path(report_id: str, program: Annotated[int, Query(ge=0)]) -> dict[str, Any]:
        """Return a program and its ancestors from the root inwards, with their positions."""
        with library.opened(report_id) as report:
            details = node(report, program)
        path = (*details.path, details.node)
        positions = [{"id": entry.program_id, "position": entry.position} for entry in path]
        return {"ok": True, "path": positions}

    @router.get("/search")
    def find_programs(
        report_id: str,
        text: Annotated[str, Query(min_length=1, max_length=200)],
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = 200,
    ) -> dict[str, Any]:
        """Return the first programs whose kind or name contains a text."""
        with library.opened(report_id) as report:
            result = search(report, text, limit)
        matches = [
            {"program": match.node.program_id, "label": match.node.label}
            for match in result.matches
        ]
        return {"ok": True, "n_matches": result.n_matches, "matches": matches}

    @router.get("/associated")
    def list_associated(
        report_id: str,
        program: Annotated[int, Query(ge=0)],
        layer: Annotated[str, Query(max_length=40)],
    ) -> dict[str, Any]:
        """Return the programs of the same debug context in a layer."""
        with library.opened(report_id) as report:
            associated = associated_programs(report, program, layer)
        name = associated.context.name if associated.context else ""
        return {"ok": True, "name": name, "programs": list(associated.program_ids)}

    _add_compared(router, library)
    return router


def _add_compared(router: APIRouter, library: Library) -> None:
    """Add the routes of two reports, whose programs are aligned."""

    @router.get("/compare/roots")
    def list_paired_roots(report_id: str, candidate: _Candidate) -> dict[str, Any]:
        """Return the control programs and functions of both reports."""
        with library.opened(report_id) as first, library.opened(candidate) as second:
            result = paired_roots(first, second)
            n_runs = [execution(report).n_runs for report in (first, second)]
        return {
            "ok": True,
            "runs": format_runs(*n_runs) if all(n_runs) else format_runs(0),
            "nodes": [_describe_pair(pair, index) for index, pair in enumerate(result)],
        }

    @router.get("/compare/children")
    def list_paired_children(
        report_id: str,
        candidate: _Candidate,
        one: _Number = None,
        other: _Number = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = _PAGE,
    ) -> dict[str, Any]:
        """Return a page of the children of a program of both reports and their total number."""
        with library.opened(report_id) as first, library.opened(candidate) as second:
            result = paired_children(first, second, one, other)
        return {
            "ok": True,
            "n_children": len(result),
            "offset": offset,
            "nodes": [
                _describe_pair(pair, offset + index)
                for index, pair in enumerate(result[offset : offset + limit])
            ],
        }

    @router.get("/compare/path")
    def find_paired_path(
        report_id: str, candidate: _Candidate, key: Annotated[str, Query(max_length=12)]
    ) -> dict[str, Any]:
        """Return a program of both reports and its ancestors, with their positions."""
        side, number = (1, key[1:]) if key.startswith("c") else (0, key)
        if not (number.isascii() and number.isdigit()):
            raise BadQuestion(f"{key!r} is not a program; expected a number, or c and a number")
        with library.opened(report_id) as first, library.opened(candidate) as second:
            path = pair_path(first, second, side, int(number))
        return {
            "ok": True,
            "path": [{"id": pair.key, "position": position} for pair, position in path],
        }

    @router.get("/compare/search")
    def find_paired_programs(
        report_id: str,
        candidate: _Candidate,
        text: Annotated[str, Query(min_length=1, max_length=200)],
        limit: Annotated[int, Query(ge=1, le=_PAGE)] = 200,
    ) -> dict[str, Any]:
        """Return the first programs of both reports whose kind or name contains a text."""
        with library.opened(report_id) as first, library.opened(candidate) as second:
            keys, n_matches = search_pairs(first, second, text, limit)
        return {
            "ok": True, "n_matches": n_matches, "matches": [{"program": key} for key in keys],
        }  # fmt: skip


def _describe_pair(pair: ProgramPair, place: int) -> dict[str, Any]:
    """Return the fields of a row of two reports; the number of children is a guess."""
    sides = [
        None if node is None else _describe(node, {node.program_id: cycles})
        for node, cycles in zip((pair.baseline, pair.candidate), pair.cycles, strict=True)
    ]
    before, after = pair.cycles
    has_change = pair.mark != "same" and (before is not None or after is not None)
    return {
        **(sides[0] or sides[1] or {}),
        "id": pair.key,
        "mark": pair.mark,
        "position": place,
        "n_children": max(side["n_children"] for side in sides if side is not None),
        "one": sides[0],
        "other": sides[1],
        "change": format_change_of(before, (after or 0) - (before or 0), "") if has_change else "",
    }


def _describe(program: ProgramNode, cycles: Mapping[int, int | None]) -> dict[str, Any]:
    """Return the fields of a row of the tree."""
    return {
        "id": program.program_id,
        "label": program.label,
        "kind": program.kind,
        "name": program.name,
        "phase": program.phase,
        "n_children": program.n_children,
        "n_tiles": program.n_tiles,
        "cycles": cycles.get(program.program_id),
        "repeat_count": program.repeat_count,
        "position": program.position,
        "root_kind": program.root_kind,
        "root_index": program.root_index,
    }
