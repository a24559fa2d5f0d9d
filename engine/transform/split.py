"""Places the nodes of a model on IPUs, as its user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import UNPLACED, Model, Operation, Region, walk

__all__ = ["split", "unplaced"]


def split(
    model: Model, ipus: Mapping[str, int], stages: Mapping[str, int] = MappingProxyType({})
) -> Model:
    """Return a model with nodes on IPUs and in stages; nodes that are not named stay as they are.

    Parameters
    ----------
    model
        As a front end loads it.
    ipus
        IPU by name of a node, or by a pattern of names; of several that fit, the last one counts.
    stages
        Stages of a pipeline, likewise.

    Raises
    ------
    BadOption
        When a name fits no node.
    """
    unused = {*ipus, *stages}

    def number(name: str, numbers: Mapping[str, int], default: int | None) -> int | None:
        for pattern, stated in numbers.items():
            if name == pattern or fnmatchcase(name, pattern):
                unused.discard(pattern)
                default = stated
        return default

    def placed(operation: Operation) -> Operation:
        now = operation.placement
        ipu = number(operation.name, ipus, now.ipu)
        stage = number(operation.name, stages, now.stage)
        regions = {key: inside(region) for key, region in operation.regions.items()}
        placement = replace(now, ipu=ipu, stage=stage)
        return replace(operation, placement=placement, regions=regions)

    def inside(region: Region) -> Region:
        return replace(region, operations=tuple(map(placed, region.operations)))

    operations = tuple(map(placed, model.operations))
    if unused:
        name = next(name for name in (*ipus, *stages) if name in unused)
        raise BadOption(f"No node is called {name!r}: the model has {_some(model.operations)}")
    return replace(model, operations=operations)


def unplaced(model: Model) -> Model:
    """Return a model whose operations state no IPU, stage or phase."""
    if not any(operation.placement.is_stated for operation in walk(model.operations)):
        return model if not model.is_pipelined else replace(model, is_pipelined=False)

    def bare(operation: Operation) -> Operation:
        regions = {
            key: replace(region, operations=tuple(map(bare, region.operations)))
            for key, region in operation.regions.items()
        }
        return replace(operation, regions=regions, placement=UNPLACED)

    return replace(model, operations=tuple(map(bare, model.operations)), is_pipelined=False)


#: Names that a message lists.
_MOST_NAMES = 8


def _some(operations: Sequence[Operation]) -> str:
    names = [operation.name for operation in operations]
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest
