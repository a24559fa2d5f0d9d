"""The graph part of a report: variables, codelets, compute sets."""

from __future__ import annotations

import json

import numpy as np

from tilescope.engine.codelets.popops.elementwise.copy import COPY, COPY_BLOCK
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.recorder.contexts import ContextTable
from tilescope.engine.recorder.digests import content_digest, mapping_digest, message_digests
from tilescope.reports import ReportWriter
from tilescope.reports.schema import compute_set, compute_set_vertex, variable, vertex_type

__all__ = ["write_compute_sets", "write_variables"]


def write_variables(writer: ReportWriter, executable: Executable, contexts: ContextTable) -> None:
    """Write variables and message buffers."""
    parts = executable.memory.parts
    variable_id, n_bytes = parts.variable_id, parts.n_bytes
    n_all = len(executable.graph.variables) + len(executable.memory.message_names)
    n_tiles = np.bincount(variable_id, minlength=n_all)
    total = np.bincount(variable_id, n_bytes, n_all).astype(np.int64)
    largest = np.zeros(n_all, np.int64)
    np.maximum.at(largest, variable_id, n_bytes)
    rows = []
    for item in executable.graph.variables:
        i = item.variable_id
        rows.append(
            {
                "variable_id": i,
                "name": item.name,
                "dtype": item.dtype.name,
                "shape": json.dumps(list(item.shape)),
                "n_elements": item.n_elements,
                "bytes": item.n_bytes,
                "category": item.category,
                "is_always_live": bool(executable.memory.is_always_live[i]),
                "n_tiles": int(n_tiles[i]),
                "max_tile_bytes": int(largest[i]),
                "mapping_digest": mapping_digest(item),
                "content_digest": content_digest(item),
                "debug_context_id": contexts.id_of(item.debug),
                "purpose": item.purpose or None,
            }
        )
    lifetimes = executable.memory.lifetimes
    digests = message_digests(executable)
    for i, name in executable.memory.message_names.items():
        # A message buffer belongs to the first step at which it is live, which needs the exchange.
        asked_by = executable.steps[lifetimes[i][0]].debug
        rows.append(
            {
                "variable_id": i,
                "name": name,
                "dtype": "uint8",
                "shape": json.dumps([int(total[i])]),
                "n_elements": int(total[i]),
                "bytes": int(total[i]),
                "category": "message",
                "is_always_live": False,
                "n_tiles": int(n_tiles[i]),
                "max_tile_bytes": int(largest[i]),
                "mapping_digest": digests[i],
                "sender_id": executable.memory.message_senders[i],
                "debug_context_id": contexts.id_of(asked_by),
            }
        )
    writer.add(variable, rows)


def write_compute_sets(
    writer: ReportWriter, executable: Executable, contexts: ContextTable
) -> None:
    """Write compute sets and the codelets that they use."""
    edges: dict[int, int] = {}
    for use in executable.vertex_uses:
        edges[use.compute_set_id] = edges.get(use.compute_set_id, 0) + use.n_edges
    writer.add(
        compute_set,
        [
            {
                "compute_set_id": item.compute_set_id,
                "name": item.name,
                "n_vertices": item.n_vertices,
                "n_edges": edges.get(item.compute_set_id, 0),
                "debug_context_id": contexts.id_of(item.debug),
            }
            for item in executable.graph.compute_sets
        ],
    )
    codelets = {
        batch.codelet.name: batch.codelet
        for item in executable.graph.compute_sets
        for batch in item.batches
    }
    ids = {name: i for i, name in enumerate(sorted(codelets))}
    writer.add(
        vertex_type,
        [
            {
                "vertex_type_id": ids[name],
                "name": name,
                "kind": "supervisor" if codelets[name].fills_tile else "worker",
                "code_bytes": codelets[name].code_bytes,
                "is_data_dependent": codelets[name].is_data_dependent,
                "source": codelets[name].source,
                "is_copy": codelets[name] in (COPY, COPY_BLOCK),
            }
            for name in sorted(codelets)
        ],
    )
    patterns = _vertex_patterns(writer, executable)
    writer.add(
        compute_set_vertex,
        [
            {
                "compute_set_id": use.compute_set_id,
                "vertex_type_id": ids[use.codelet_name],
                "n_vertices": use.n_vertices,
                "n_tiles": use.n_tiles,
                "max_cycles": use.max_cycles,
                "total_cycles": use.total_cycles,
                "flops": use.flops,
                "state_bytes": use.state_bytes,
                "vertices_pattern_id": patterns[use.compute_set_id, use.codelet_name],
            }
            for use in executable.vertex_uses
        ],
    )


def _vertex_patterns(writer: ReportWriter, executable: Executable) -> dict[tuple[int, str], int]:
    """Return the row of ``vertices.pattern`` of every codelet of every compute set."""
    n_tiles = executable.machine.n_tiles
    pattern_ids: dict[tuple[int, str], int] = {}
    known: dict[tuple[tuple[int, int], ...], int] = {}
    for item in executable.graph.compute_sets:
        tiles: dict[str, list[np.ndarray]] = {}
        for batch in item.batches:
            tiles.setdefault(batch.codelet.name, []).append(batch.tile)
        for name, arrays in tiles.items():
            # Compute sets of equal plans share the memory of their arrays.
            key = tuple((a.__array_interface__["data"][0], a.size) for a in arrays)
            if key not in known:
                counts = np.bincount(np.concatenate(arrays), minlength=n_tiles)
                known[key] = writer.pattern("vertices.pattern", counts)
            pattern_ids[item.compute_set_id, name] = known[key]
    return pattern_ids
