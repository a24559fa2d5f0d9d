"""Splits a model over IPUs by itself: equal work, memory that suffices, little that crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import Model, Operation, Parameter, Value, read_from_outside, walk
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.window.convolution import CONVOLUTION
from tilescope.engine.transform.decompose import decompose

__all__ = ["Cut", "Part", "balance", "other_cuts", "parts_of"]

Numbers = NDArray[np.float64]

#: Multiplications that a tile does in a cycle of its AMP unit, and elements that its vector unit
#: does, both of float32: what work of operations is compared by.
#: Source: Graphcore, Tile Vertex ISA (release 1.3.1), f32sisoamp and f32v2add.
_PRODUCTS_IN_CYCLE, _ELEMENTS_IN_CYCLE = 16, 2

#: Share of the memory of an IPU that weights may take; the rest is for what a run computes.
_WEIGHT_SHARE = 0.6


@dataclass(frozen=True)
class Part:
    """What a split puts on an IPU.

    Parameters
    ----------
    first, last
        Names of its first and last node.
    n_nodes
        Nodes.
    work
        Share of all work, from 0 to 1; an estimate by products and elements.
    weight_bytes
        Bytes of the weights that its nodes read.
    crossing_bytes
        Bytes that reach it from other IPUs in a run.
    """

    ipu: int
    first: str
    last: str
    n_nodes: int
    work: float
    weight_bytes: int
    crossing_bytes: int


@dataclass(frozen=True)
class Cut:
    """What a cut between two IPUs would give one node earlier or later.

    Parameters
    ----------
    ipu
        The IPU before the cut.
    node
        The node that would change its IPU.
    slowest
        Largest share of the work of any IPU then.
    crossing_bytes
        Bytes that cross between all IPUs in a run then.
    """

    ipu: int
    node: str
    slowest: float
    crossing_bytes: int


def balance(
    model: Model, n_ipus: int, ipu_bytes: int, ratios: Sequence[float] = ()
) -> Mapping[str, int]:
    """Return the IPU of every node, for `tilescope.engine.transform.split`.

    Nodes stay in their order; the slowest part is as quick as it can be with weights that fit,
    and of such splits the one in which fewest bytes cross is taken.

    Parameters
    ----------
    model
        As a front end loads it.
    n_ipus
        Number of IPUs.
    ipu_bytes
        Memory of an IPU.
    ratios
        Shares of the work by IPU, whose sum is 1; equal ones if empty.

    Raises
    ------
    BadOption
        When the ratios do not fit the IPUs.
    BadModel
        When the model has fewer nodes than IPUs.
    """
    costs = _Costs.of(model)
    if len(model.operations) < n_ipus:
        raise BadModel(
            f"{model.name!r} has {len(model.operations)} nodes, too few for {n_ipus} IPUs"
        )
    if ratios and (len(ratios) != n_ipus or abs(sum(ratios) - 1) > 1e-6 or min(ratios) <= 0):
        raise BadOption(f"The ratios of {n_ipus} IPUs must be {n_ipus} shares whose sum is 1")
    shares = np.asarray(ratios or [1 / n_ipus] * n_ipus)
    ends = _ends(costs, shares, _WEIGHT_SHARE * ipu_bytes)
    ipus = np.searchsorted(ends, np.arange(len(model.operations)), side="right")
    return {op.name: int(ipu) for op, ipu in zip(model.operations, ipus, strict=True)}


def parts_of(model: Model, ipus: Mapping[str, int]) -> list[Part]:
    """Return what a split of all nodes puts on every IPU.

    Parameters
    ----------
    model
        As a front end loads it.
    ipus
        IPU by name of a node.
    """
    return _parts(model, ipus, _Costs.of(model))


def _parts(model: Model, ipus: Mapping[str, int], costs: _Costs) -> list[Part]:
    of = np.array([ipus[operation.name] for operation in model.operations])
    total = costs.work.sum() or 1.0
    home = {v: ipus[op.name] for op in model.operations for v in op.results}
    crossing: dict[tuple[Value, int], int] = {}
    for operation in model.operations:
        ipu = ipus[operation.name]
        for value in read_from_outside(operation):
            if home.get(value, ipu) != ipu:
                crossing[value, ipu] = _bytes(value)
    parts = []
    for ipu in sorted(set(of.tolist())):
        here = np.flatnonzero(of == ipu)
        parts.append(
            Part(
                ipu,
                model.operations[here[0]].name,
                model.operations[here[-1]].name,
                len(here),
                float(costs.work[here].sum() / total),
                int(costs.weights[here].sum()),
                sum(size for (_, target), size in crossing.items() if target == ipu),
            )
        )
    return parts


def other_cuts(model: Model, ipus: Mapping[str, int]) -> list[Cut]:
    """Return what every cut of a split of all nodes would give one node earlier and later.

    Parameters
    ----------
    model
        As a front end loads it.
    ipus
        IPU by name of a node; nodes of an IPU follow each other.
    """
    names, costs = [operation.name for operation in model.operations], _Costs.of(model)
    cuts = []
    for before, after in pairwise(range(len(names))):
        left, right = ipus[names[before]], ipus[names[after]]
        if left == right:
            continue
        for node, target in ((names[before], right), (names[after], left)):
            moved = {**ipus, node: target}
            if set(moved.values()) != set(ipus.values()):
                continue
            parts = _parts(model, moved, costs)
            slowest = max(part.work for part in parts)
            cuts.append(Cut(left, node, slowest, sum(part.crossing_bytes for part in parts)))
    return cuts


@dataclass(frozen=True)
class _Costs:
    """What nodes cost, in their order.

    Parameters
    ----------
    work
        Cycles of one tile.
    weights
        Bytes of the weights that a node is the first to read.
    crossing
        Bytes that cross a cut behind a node.
    """

    work: Numbers
    weights: Numbers
    crossing: Numbers

    @classmethod
    def of(cls, model: Model) -> _Costs:
        names = {operation.name: i for i, operation in enumerate(model.operations)}
        n = len(model.operations)
        work, weights, crossing = np.zeros(n), np.zeros(n), np.zeros(n + 1)
        whole = decompose(replace(model, training=None))
        for operation in walk(whole.operations):
            node = (operation.origin or operation).name
            if node in names:
                work[names[node]] += _work(operation)
        seen: set[Value] = set()
        last: dict[Value, int] = {}
        for i, operation in enumerate(model.operations):
            for value in read_from_outside(operation):
                last[value] = i
                is_weight = value.is_known or isinstance(value, Parameter)
                if is_weight and value not in seen:
                    seen.add(value)
                    weights[i] += _bytes(value)
        for i, operation in enumerate(model.operations):
            for value in operation.results:
                crossing[i] += _bytes(value)
                crossing[max(i, last.get(value, i))] -= _bytes(value)
        return cls(work, weights, np.cumsum(crossing)[:n])


def _ends(costs: _Costs, shares: Numbers, most_bytes: float) -> list[int]:
    """Return where parts end: numbers of the nodes after them, the last one left out.

    The smallest bound on the work of parts that can be met is searched first; then, below it, the
    ends where least crosses, by dynamic programming over nodes and parts.
    """
    n, n_parts = len(costs.work), len(shares)
    work = np.concatenate([[0.0], np.cumsum(costs.work)])
    weights = np.concatenate([[0.0], np.cumsum(costs.weights)])
    # Weights that cannot be shared out so are shared out evenly.
    most_bytes = max(most_bytes, weights[-1] / n_parts + costs.weights.max(initial=0.0))
    low, high = 0.0, float(work[-1] / shares.min()) + 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _greedy(work, weights, middle * shares, most_bytes) is None:
            low = middle
        else:
            high = middle
    bound = high * shares
    least = np.full((n_parts + 1, n + 1), np.inf)
    came = np.zeros((n_parts + 1, n + 1), np.int64)
    least[0, 0] = 0.0
    for part in range(n_parts):
        for begin in np.flatnonzero(np.isfinite(least[part])):
            end = int(np.searchsorted(work, work[begin] + bound[part] * (1 + 1e-9), side="right"))
            end = min(end, int(np.searchsorted(weights, weights[begin] + most_bytes, "right")))
            for stop in range(begin + 1, min(end, n + 1 - (n_parts - part - 1))):
                cost = least[part, begin] + (costs.crossing[stop - 1] if stop < n else 0.0)
                if cost < least[part + 1, stop]:
                    least[part + 1, stop], came[part + 1, stop] = cost, begin
    ends, place = [], n
    for part in range(n_parts, 0, -1):
        place = int(came[part, place])
        ends.append(place)
    return sorted(ends)[1:]


def _greedy(work: Numbers, weights: Numbers, bound: Numbers, most_bytes: float) -> list[int] | None:
    """Return ends of parts within a bound, each as long as it can be; None if there are none."""
    n, begin, ends = len(work) - 1, 0, []
    for i, most in enumerate(bound):
        end = int(np.searchsorted(work, work[begin] + most * (1 + 1e-9), side="right")) - 1
        end = min(end, int(np.searchsorted(weights, weights[begin] + most_bytes, "right")) - 1)
        end = min(end, n - (len(bound) - i - 1))
        if end <= begin:
            return None
        ends.append(end)
        begin = end
    return ends if begin == n else None


def _work(operation: Operation) -> float:
    """Return the cycles of one tile that would do an operation alone, about."""
    elements = sum(prod(value.shape) for value in (*operation.operands, *operation.results))
    n_results = sum(prod(value.shape) for value in operation.results)
    if operation.operator is MATMUL:
        return n_results * operation.operand(0).shape[-1] / _PRODUCTS_IN_CYCLE
    if operation.operator is CONVOLUTION:
        kernel = operation.operand(1)
        return n_results * prod(kernel.shape[1:]) / _PRODUCTS_IN_CYCLE
    return elements / _ELEMENTS_IN_CYCLE


def _bytes(value: Value) -> int:
    return prod(value.shape) * np.dtype(value.dtype).itemsize
