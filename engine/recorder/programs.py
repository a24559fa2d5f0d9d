"""The program tree of a report, and what its leaves access."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Executable, Node, Step
from tilescope.engine.recorder.contexts import ContextTable
from tilescope.reports import ReportWriter
from tilescope.reports.schema import program
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS

__all__ = ["write_programs"]


def _active_tiles(step: Step) -> int:
    return int(step.cost.tile_cycles.ids.size)


def write_programs(writer: ReportWriter, executable: Executable, contexts: ContextTable) -> None:
    """Write the program tree, and the variables that its leaves read or write."""

    def row(node: Node) -> dict[str, object]:
        leaf = node.step
        if PROGRAM_KINDS[node.kind].is_step != (leaf is not None):
            raise ValueError(f"a program of kind {node.kind} does not match its step")
        code, pattern = 0, None
        if leaf is not None and leaf.code_bytes is not None and leaf.code_bytes.ids.size:
            code = leaf.code_bytes.sum()
            pattern = writer.pattern("code.pattern", leaf.code_bytes.dense())
        role = node.role
        computes = None if leaf is None else leaf.compute_set
        return {
            "program_id": node.program_id,
            "parent_id": node.parent_id,
            "position": node.position,
            "root_kind": node.root_kind,
            "root_index": node.root_index,
            "kind": node.kind,
            "name": node.name,
            "n_children": len(node.children),
            "repeat_count": node.repeat_count,
            "n_tiles": 0 if leaf is None else _active_tiles(leaf),
            "code_bytes": code,
            "code_pattern_id": pattern,
            "step_id": None if leaf is None else leaf.step_id,
            "compute_set_id": None if computes is None else computes.compute_set_id,
            "debug_context_id": contexts.id_of(node.debug),
            "pipeline_part": None if role is None else role.part,
            "pipeline_stages": ", ".join(role.stages) if role is not None and role.stages else None,
        }

    writer.add(program, [row(node) for node in executable.nodes])
    pairs = _accesses(executable)
    writer.append("program_variable.program_id", pairs[:, 0])
    writer.append("program_variable.variable_id", pairs[:, 1])


def _accesses(executable: Executable) -> NDArray[np.int64]:
    """Return the variables of every leaf program.

    Returns
    -------
    ndarray of int64, shape (n, 2)
        Program and variable, sorted, without duplicates.
    """
    steps, memory = executable.steps, executable.memory
    pairs = [(s.program_id, v) for s in steps for v in (*s.reads, *s.writes)]
    for variable_id in memory.message_names:
        for first, end in memory.lives[variable_id]:
            # The exchange and the compute phase are the first and the last step of a life.
            pairs += [(steps[step_id].program_id, variable_id) for step_id in (first, end - 1)]
    if not pairs:
        return np.zeros((0, 2), np.int64)
    pairs_ = np.array(pairs, np.int64)
    n_variables = int(pairs_[:, 1].max()) + 1
    # One number sorts many times faster than a row of two.
    joined = np.unique(pairs_[:, 0] * n_variables + pairs_[:, 1])
    return np.stack(np.divmod(joined, n_variables), axis=1)
