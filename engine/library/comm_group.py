"""Groups of replicas that take part in a collective."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.arguments import a_count, shown
from tilescope.engine.errors import BadGraph

__all__ = ["EVERY_REPLICA", "CommGroup"]

#: Kinds of groups, with what they are.
_KINDS = {
    "all": "all replicas",
    "consecutive": "replicas that follow each other, `size` of them",
    "orthogonal": "replicas that are as far apart as possible, `size` of them",
    "none": "every replica alone",
}


@dataclass(frozen=True)
class CommGroup:
    """The replicas that take part in a collective, in groups of equal size.

    Parameters
    ----------
    kind
        ``all``, ``consecutive``, ``orthogonal`` or ``none``.
    size
        Replicas of a group; 0 for all.
    stride
        Distance of the members of a group, which then decides alone; 0 leaves it to `kind`.

    Raises
    ------
    BadGraph
        When the kind does not exist, or a number is negative.

    Notes
    -----
    Source: GCL's CommGroup, as docs.graphcore.ai, Poplar API, has it.
    """

    kind: str = "all"
    size: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        """Check the kind and the numbers."""
        if self.kind not in _KINDS:
            raise BadGraph(
                f"The kind of a group of replicas is {shown(self.kind)}: choose {', '.join(_KINDS)}"
            )
        for name in ("size", "stride"):
            a_count(f"The {name} of a group of replicas", getattr(self, name), 0)

    def grid(self, n_replicas: int) -> tuple[int, int]:
        """Return the size of a group, and the distance of its members.

        Raises
        ------
        BadGraph
            When the groups do not divide the replicas.
        """
        if self.kind == "none":
            return 1, 1
        size = n_replicas if self.kind == "all" and not self.stride else self.size or n_replicas
        if n_replicas % size:
            raise BadGraph(
                f"Groups of {size} replicas do not divide {n_replicas} replicas: use a size that"
                " does"
            )
        stride = self.stride or (n_replicas // size if self.kind == "orthogonal" else 1)
        if n_replicas % (size * stride):
            raise BadGraph(
                f"Groups of {size} replicas, {stride} apart, do not divide {n_replicas} replicas"
            )
        return size, stride


EVERY_REPLICA = CommGroup()
