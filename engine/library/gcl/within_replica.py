"""Collectives between the IPUs of one replica: each has a row of a tensor.

The rows travel around a ring of IPUs, a part at a time, as those of replicas do; which part is
where is known when the program is made, so that the exchanges are ordinary ones.
Source: graphcore/poplibs sdk-release-1.4, lib/popops/Collectives.cpp: rings over the IPUs of a
graph, up the even ones and down the others.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.gcl.rings import OPERATORS, ring_members
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import copy_to

__all__ = [
    "all_gather_within_replica",
    "all_reduce_within_replica",
    "reduce_scatter_within_replica",
]

#: By number: first element, and one past the last.
Parts = list[tuple[int, int]]

#: Functions of two elements that need nothing before or after.
_FUNCTIONS = {name: OPERATORS[name] for name in ("add", "mul", "min", "max")}


@checked
def all_reduce_within_replica(builder: Builder, x: View, operation: str = "add") -> Tensor:
    """Return the sum, or another function, of the rows of all IPUs, on each of them.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Shape (n_ipus, …), row i on IPU i.
    operation
        ``add``, ``mul``, ``min`` or ``max``.

    Returns
    -------
    Tensor
        The shape of `x`; every row has the result, where the row of `x` is.

    Raises
    ------
    BadGraph
        If there is not a row for every IPU, or the operator is unknown.
    """
    build, rows, parts = _begun(builder, x, operation, "allReduceWithinReplica")
    _reduce(build, rows, parts, _FUNCTIONS[operation])
    for step in range(len(parts) - 1):
        source, target = _moved(rows, parts, -1 - step)
        copy_to(build, source, target, f"gather {step}")
    return rows.reshape(*x.shape)


@checked
def reduce_scatter_within_replica(builder: Builder, x: View, operation: str = "add") -> View:
    """Return the sum, or another function, of the rows of all IPUs, a share of it on each.

    Parameters
    ----------
    builder, x, operation
        As for `all_reduce_within_replica`.

    Returns
    -------
    View
        One dimension, the elements of a row: the first share is on IPU 0.

    Raises
    ------
    BadGraph
        As there.
    """
    build, rows, parts = _begun(builder, x, operation, "reduceScatterWithinReplica")
    _reduce(build, rows, parts, _FUNCTIONS[operation])
    return concat([_part(rows, parts, ipu, ipu) for ipu in range(len(parts)) if _size(parts[ipu])])


@checked
def all_gather_within_replica(builder: Builder, x: View) -> View:
    """Return the rows of all IPUs, on each of them.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Shape (n_ipus, …), row i on IPU i.

    Returns
    -------
    View
        Shape (n_ipus, n_ipus, …): `x` on every IPU, on the tiles of its own row.

    Raises
    ------
    BadGraph
        If there is not a row for every IPU.
    """
    n = _n_rows(builder, x, "allGatherWithinReplica")
    detail = {"shape": list(x.shape), "ipus": n}
    build = builder.inside("allGather", "gcl.allGatherWithinReplica", detail)
    flat = x.reshape(n, x.n_elements // n)
    copies = [build.graph.clone(flat, f"of{k}", debug=build.debug) for k in range(n)]
    # Copy k holds, on every IPU, the row of the IPU that is k places before it in the ring.
    copy_to(build, flat, copies[0], "own")
    ring = ring_members(n, is_interleaved=True)
    place = {ipu: index for index, ipu in enumerate(ring)}
    before = {ipu: ring[(place[ipu] - 1) % n] for ipu in ring}
    for k in range(1, n):
        sources = [copies[k - 1].slice(0, before[ipu], before[ipu] + 1) for ipu in range(n)]
        copy_to(build, concat(sources, 0), copies[k], f"step {k}")
    every = [
        concat([copies[(place[ipu] - place[of]) % n].slice(0, ipu, ipu + 1) for of in range(n)], 0)
        for ipu in range(n)
    ]
    return concat(every, 0).reshape(n, *x.shape)


def _n_rows(builder: Builder, x: View, name: str) -> int:
    n_ipus = builder.graph.machine.n_ipus
    if not x.shape or x.shape[0] != n_ipus:
        raise BadGraph(
            f"{name}: {x.name!r} of shape {x.shape} needs a row for each of {n_ipus} IPUs"
        )
    return n_ipus


def _begun(builder: Builder, x: View, operation: str, name: str) -> tuple[Builder, Tensor, Parts]:
    """Return a builder, a copy of the rows, and the parts of a row: a slice for every IPU.

    Raises
    ------
    BadGraph
        If there is not a row for every IPU, or the operator is unknown.
    """
    if operation not in _FUNCTIONS:
        raise BadGraph(f"{name}: operator is {operation!r}; choose {', '.join(_FUNCTIONS)}")
    n = _n_rows(builder, x, name)
    detail = {"shape": list(x.shape), "operator": operation, "ipus": n}
    build = builder.inside(name, f"gcl.{name}", detail)
    flat = x.reshape(n, x.n_elements // n)
    rows = build.graph.clone(flat, "rows", debug=build.debug)
    copy_to(build, flat, rows, "rows")
    edges = np.linspace(0, flat.shape[1], n + 1).astype(np.int64).tolist()
    return build, rows, [*pairwise(edges)]


def _size(part: tuple[int, int]) -> int:
    return part[1] - part[0]


def _part(rows: Tensor, parts: Parts, ipu: int, number: int) -> Tensor:
    """Return a part of the row of an IPU, in one dimension."""
    return rows.slice(0, ipu, ipu + 1).slice(1, *parts[number]).flatten()


def _moved(rows: Tensor, parts: Parts, distance: int) -> tuple[View, View]:
    """Return what all IPUs receive from those before them in the ring, and where it goes.

    An IPU receives the part of the IPU that is some places farther around the ring.
    """
    n = len(parts)
    ring = ring_members(n, is_interleaved=True)
    pairs = [
        (_part(rows, parts, ring[place - 1], number), _part(rows, parts, ipu, number))
        for place, ipu in enumerate(ring)
        for number in [ring[(place + distance) % n]]
        if _size(parts[number])
    ]
    sources, targets = zip(*pairs, strict=True)
    return concat(sources, 0), concat(targets, 0)


def _reduce(builder: Builder, rows: Tensor, parts: Parts, function: str) -> None:
    """Let every IPU's row have, in the part of its number, the function of all rows."""
    n = len(parts)
    for step in range(n - 1):
        source, target = _moved(rows, parts, n - 2 - step)
        binary_in_place(builder, function, target, source)
