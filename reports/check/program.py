"""Checks of the compiled program: tree, origins, vertices, code and accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tilescope.reports.check.patterns import pattern_facts
from tilescope.reports.reading.report import Report
from tilescope.reports.schema import (
    DATAFLOW_COLUMNS,
    compute_set_vertex,
    debug_context,
    program,
    step,
    variable,
)

__all__ = ["PROGRAM_CHECKS"]


def _program(report: Report) -> Iterator[str]:
    nodes = report.table(program)
    ids = nodes["program_id"]
    n_found: dict[int, int] = {}
    positions = set()
    for node, parent, position, root in zip(
        ids, nodes["parent_id"], nodes["position"], nodes["root_index"], strict=True
    ):
        if parent is not None:
            n_found[parent] = n_found.get(parent, 0) + 1
            if parent >= node:
                yield f"Program {node} comes before its parent {parent}."
            if (parent, position) in positions:
                yield f"Program {parent} has two children at position {position}."
            positions.add((parent, position))
        if root < 0:
            yield f"Program {node} belongs to root {root}."
    for node, n_children in zip(ids, nodes["n_children"], strict=True):
        if n_found.get(node, 0) != n_children:
            yield f"Program {node} declares {n_children} children and has {n_found.get(node, 0)}."
    if report.table(step)["step_id"] != list(range(len(report.table(step)["step_id"]))):
        yield "Steps are not numbered from 0."


def _contexts(report: Report) -> Iterator[str]:
    rows = report.table(debug_context)
    for number, flops, name, line in zip(
        *(rows[key] for key in ("debug_context_id", "flops", "file_name", "line_number")),
        strict=True,
    ):
        if flops is not None and flops < 0:
            yield f"Debug context {number} has {flops} floating-point operations."
        if (name is None) != (line is None) or (line is not None and line < 1):
            yield f"Debug context {number} has half a place in a source file."


def _vertices(report: Report) -> Iterator[str]:
    rows = report.table(compute_set_vertex)
    ids = np.array(rows["vertices_pattern_id"], np.int64)
    facts = pattern_facts(report, "vertices.pattern")
    if ids.size and not (ids.min() >= 0 and ids.max() < len(facts)):
        yield "A codelet of a compute set names a missing pattern of vertices."
        return
    for column, column_of_facts in (("n_vertices", 1), ("n_tiles", 2)):
        differing = np.flatnonzero(facts[ids, column_of_facts] != np.array(rows[column], np.int64))
        if len(differing):
            which = rows["compute_set_vertex_id"][differing[0]]
            yield f"The {column} of compute_set_vertex {which} differs from its pattern."


def _code(report: Report) -> Iterator[str]:
    rows = report.table(program)
    facts = pattern_facts(report, "code.pattern")
    for number, n_bytes, pattern in zip(
        *(rows[key] for key in ("program_id", "code_bytes", "code_pattern_id")), strict=True
    ):
        if pattern is not None and not 0 <= pattern < len(facts):
            yield f"Program {number} names a missing pattern of code."
        elif n_bytes != (0 if pattern is None else facts[pattern, 1]):
            yield f"The code of program {number} differs from its pattern."


def _accesses(report: Report) -> Iterator[str]:
    rows = [report.array(f"program_variable.{key}_id").read() for key in ("program", "variable")]
    pairs = np.stack(rows, axis=1).astype(np.int64)
    n_variables = max(report.table(variable)["variable_id"], default=0) + 1
    if (np.diff(pairs[:, 0] * n_variables + pairs[:, 1]) <= 0).any():
        yield "The variables of programs are not sorted, or repeat."
    is_leaf = {
        number: step_id is not None
        for number, step_id in zip(
            *(report.table(program)[key] for key in ("program_id", "step_id")), strict=True
        )
    }
    for number in np.unique(pairs[:, 0]).tolist():
        if not is_leaf[number]:
            yield f"Program {number} is not a leaf and has variables."


def _dataflow(report: Report) -> Iterator[str]:
    target, which, source, n_bytes = (
        report.array(f"dataflow.{name}").read().astype(np.int64) for name in DATAFLOW_COLUMNS
    )
    order = np.lexsort((source, which, target))
    rows = np.stack((target, which, source), axis=1)
    is_same = (np.diff(rows[order], axis=0) == 0).all(axis=1)
    if is_same.any() or (np.diff(order) < 0).any():
        yield "The flows between steps are not sorted, or repeat."
    if (n_bytes <= 0).any():
        yield "A flow between steps has no bytes."


PROGRAM_CHECKS: tuple[Callable[[Report], Iterator[str]], ...] = (
    _program,
    _contexts,
    _vertices,
    _code,
    _accesses,
    _dataflow,
)
