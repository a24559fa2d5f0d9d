"""Digests of tile mappings and contents of variables, and of programs of the graph API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import DebugContext, Variable
from tilescope.engine.graph.identity.digest import digest_of

__all__ = ["content_digest", "mapping_digest", "message_digests", "program_digests"]


def mapping_digest(variable: Variable) -> str | None:
    """Return the digest of a variable's intervals with their tiles; None if it is not mapped."""
    if not variable.is_mapped:
        return None
    return digest_of([f"{variable.n_elements}", variable.map_start, variable.map_tile])


def content_digest(variable: Variable) -> str | None:
    """Return the digest of a constant or of initial values; None without any."""
    return None if variable.values is None else digest_of([variable.values])


def message_digests(executable: Executable) -> dict[int, str]:
    """Return the digest of every message buffer's parts, by its variable id."""
    parts, first = executable.memory.parts, len(executable.graph.variables)
    variable_id = parts.variable_id
    chosen = np.flatnonzero(variable_id >= first)
    number = variable_id[chosen] - first
    # numpy sorts 16-bit integers by radix, many times faster than 64-bit ones.
    is_short = len(executable.memory.message_names) < 1 << 16
    order = chosen[np.argsort(number.astype(np.uint16) if is_short else number, kind="stable")]
    owner, tile = variable_id[order], parts.tile[order]
    n_bytes = parts.n_bytes[order]
    edges = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), order.size]
    digests = {
        int(owner[begin]): digest_of([tile[begin:end], n_bytes[begin:end]])
        for begin, end in pairwise(edges)
        if begin < end
    }
    nothing = digest_of([tile[:0], n_bytes[:0]])
    return {number: digests.get(number, nothing) for number in executable.memory.message_names}


def program_digests(executable: Executable) -> tuple[str, str]:
    """Return the digests of structure and weights.

    For programs of the graph API, the structure is library calls with their arguments, and
    variables, compute sets and control flow outside of them.
    """
    if executable.is_model:
        return executable.graph_digest, executable.weights_digest
    graph = executable.graph
    structure = [
        [[v.dtype.name, v.shape, v.category] for v in graph.variables if not _is_inside(v.debug)],
        [
            [[batch.codelet.name, batch.n_vertices] for batch in compute_set.batches]
            for compute_set in graph.compute_sets
            if not _is_inside(compute_set.debug)
        ],
        [
            [node.kind, node.repeat_count]
            for node in executable.nodes
            if node.step is None and not _is_inside(node.debug)
        ],
        [
            [call.operation, {k: v for k, v in call.detail.items() if k != "partialsType"}]
            for call in _calls(executable)
        ],
    ]
    contents = [v.values for v in graph.variables if v.values is not None]
    text = json.dumps(structure, sort_keys=True, default=str)
    return digest_of([text]), digest_of(contents)


def _is_inside(debug: DebugContext) -> bool:
    """Return whether a context is a library call or inside one."""
    return debug.layer == "library" or (debug.parent is not None and _is_inside(debug.parent))


def _calls(executable: Executable) -> Iterator[DebugContext]:
    """Yield the library calls of the program in their order, without calls inside them."""
    visited: set[DebugContext] = set()
    for node in executable.nodes:
        outermost, context = None, node.debug
        while context is not None:
            if context.layer == "library":
                outermost = context
            if context.parent is None:
                break
            context = context.parent
        if outermost is not None and outermost not in visited:
            visited.add(outermost)
            yield outermost
