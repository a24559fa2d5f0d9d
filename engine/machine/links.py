"""Links between IPUs: topology, routes, and the load of every link."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TOPOLOGIES", "Link", "link_loads", "route"]

TOPOLOGIES = ("ladder", "torus")


class Link(NamedTuple):
    """A bundle of links in one direction.

    ``kind`` is ``pair`` (between the two IPUs of a rung, for their own traffic), ``cross`` (over
    the rung, for traffic to other rungs) or ``rail`` (up or down one side).
    """

    kind: str
    source_ipu: int
    target_ipu: int


def route(source_ipu: int, target_ipu: int, n_ipus: int, topology: str = "ladder") -> list[Link]:
    """Return the links on the route from one IPU to another, in order.

    Parameters
    ----------
    source_ipu, target_ipu
        IPUs 2k and 2k + 1 are the ends of rung k; equal IPUs need no link.
    n_ipus
        IPUs of the system; if odd, the last rung has one end only.
    topology
        ``ladder``, or ``torus``: a ladder whose rails are closed to rings.

    Notes
    -----
    Routes cross the rung first, then follow the rail; from a rung with one end, they follow the
    rail first. A torus uses the shorter direction, upwards in a tie.

    Source: graphcore/poplibs sdk-release-3.4, lib/poplibs_test/Util.cpp,
    addGlobalExchangeConstraints (ladder). Assumption: the choice of direction in a torus.
    """
    if source_ipu == target_ipu:
        return []
    if source_ipu // 2 == target_ipu // 2:
        return [Link("pair", source_ipu, target_ipu)]
    links = []
    here = source_ipu
    changes_side = here % 2 != target_ipu % 2
    has_other_end = here ^ 1 < n_ipus
    if changes_side and has_other_end:
        links.append(Link("cross", here, here ^ 1))
        here ^= 1
    rail_end = target_ipu if here % 2 == target_ipu % 2 else target_ipu ^ 1
    links += _along_rail(here, rail_end, n_ipus, topology)
    if rail_end != target_ipu:
        links.append(Link("cross", rail_end, target_ipu))
    return links


def _along_rail(source_ipu: int, target_ipu: int, n_ipus: int, topology: str) -> list[Link]:
    side = source_ipu % 2
    n_rungs = (n_ipus - side + 1) // 2  # rungs with an end on this side
    here, end = source_ipu // 2, target_ipu // 2
    step = 1 if end > here else -1
    if topology == "torus":
        upwards = (end - here) % n_rungs
        step = 1 if upwards <= n_rungs - upwards else -1
    links = []
    while here != end:
        there = (here + step) % n_rungs
        links.append(Link("rail", 2 * here + side, 2 * there + side))
        here = there
    return links


class _Routes(NamedTuple):
    links: tuple[Link, ...]
    pair_of_hop: NDArray[np.int64]
    link_of_hop: NDArray[np.int64]


@lru_cache(maxsize=16)
def _routes(n_ipus: int, topology: str) -> _Routes:
    """Return all links, and the pair of IPUs and the link of every hop."""
    numbers: dict[Link, int] = {}
    pairs, hops = [], []
    for source in range(n_ipus):
        for target in range(n_ipus):
            for link in route(source, target, n_ipus, topology):
                pairs.append(source * n_ipus + target)
                hops.append(numbers.setdefault(link, len(numbers)))
    return _Routes(tuple(numbers), np.array(pairs, np.int64), np.array(hops, np.int64))


def link_loads(traffic_bytes: NDArray[np.int64], topology: str) -> dict[Link, int]:
    """Return the bytes that every used link carries, given the traffic between IPUs.

    Parameters
    ----------
    traffic_bytes : ndarray of int64, shape (n_ipus, n_ipus), bytes
        From the row's IPU to the column's; the diagonal is ignored.
    topology
        ``ladder`` or ``torus``.
    """
    routes = _routes(traffic_bytes.shape[0], topology)
    loads = np.zeros(len(routes.links), np.int64)
    np.add.at(loads, routes.link_of_hop, traffic_bytes.ravel()[routes.pair_of_hop])
    used = zip(routes.links, loads.tolist(), strict=True)
    return {link: n_bytes for link, n_bytes in used if n_bytes}
