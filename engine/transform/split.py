"""Places the nodes of a model on IPUs, as its user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import UNPLACED, Model, Operation, Region, walk

__all__ = ["split", "unplaced"]


def split(model: Model, ipus: Mapping[str, int]) -> Model:
    """Return a model with nodes on IPUs; nodes that are not named stay as they are.

    Parameters
    ----------
    model
        As a front end loads it.
    ipus
        IPU by name of a node, or by a pattern of names; of several that fit, the last one counts.

    Raises
    ------
    BadOption
        When a name fits no node.
    """
    unused = set(ipus)

    def placed(operation: Operation) -> Operation:
        ipu = operation.placement.ipu
        for pattern, stated in ipus.items():
            if operation.name == pattern or fnmatchcase(operation.name, pattern):
                unused.discard(pattern)
                ipu = stated
        regions = {key: inside(region) for key, region in operation.regions.items()}
        placement = replace(operation.placement, ipu=ipu)
        return replace(operation, placement=placement, regions=regions)

    def inside(region: Region) -> Region:
        return replace(region, operations=tuple(map(placed, region.operations)))

    operations = tuple(map(placed, model.operations))
    if unused:
        name = next(name for name in ipus if name in unused)
        raise BadOption(f"No node is called {name!r}: the model has {_some(model.operations)}")
    return replace(model, operations=operations)


def unplaced(model: Model) -> Model:
    """Return a model whose operations state no IPU, stage or phase."""
    if not any(operation.placement.is_stated for operation in walk(model.operations)):
        return model

    def bare(operation: Operation) -> Operation:
        regions = {
            key: replace(region, operations=tuple(map(bare, region.operations)))
            for key, region in operation.regions.items()
        }
        return replace(operation, regions=regions, placement=UNPLACED)

    return replace(model, operations=tuple(map(bare, model.operations)))


#: Names that a message lists.
_MOST_NAMES = 8


def _some(operations: Sequence[Operation]) -> str:
    names = [operation.name for operation in operations]
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest
