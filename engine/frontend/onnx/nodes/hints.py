"""What PopART's attributes ask of the compiler for one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Hints, Placement
from tilescope.engine.operators.graphcore.collectives import COLLECTIVE_ATTRIBUTES
from tilescope.engine.options.available_memory import is_proportion
from tilescope.engine.options.catalogue import PARTIALS_TYPES

__all__ = ["hints_of", "placement_of", "without_hints"]

#: How the names of PopART's own attributes begin, of nodes of every domain. Those that are not
#: named below change no value: preferences for writing in place, priorities, patterns, tile sets,
#: parts of products, information for debugging. Source: graphcore/popart,
#: willow/include/popart/names.hpp.
_RESERVED = "__"
_AVAILABLE_MEMORY, _PARTIALS_TYPE = "__available_memory", "__partials_type"
_RECOMPUTED = "__recompute_output_in_backward_pass"
#: Numbers of a placement, by its names.
_PLACES = {
    "ipu": "__ipu_number",
    "stage": "__pipeline_stage",
    "phase": "__execution_phase",
}
#: What a mark of recomputation says by its number: undefined, kept, computed again, computed again.
#: Source: graphcore/popart, willow/include/popart/op.hpp: RecomputeType.
_MARKS = (None, False, True, True)


def hints_of(where: str, attributes: Mapping[str, Any], *, has_parts: bool = False) -> Hints:
    """Return the hints among a node's attributes.

    Parameters
    ----------
    where
        The node, for messages.
    attributes
        As the node states them.
    has_parts
        Whether the node is several in one, each with numbers of its own: the smallest proportion
        counts, and the wider type.

    Raises
    ------
    BadModel
        When the proportion is not one number above 0, up to 1, the type neither float nor half, or
        a mark no number.
    """
    return Hints(
        available_memory_proportion=_proportion(where, attributes, has_parts=has_parts),
        partials_type=_partials_type(where, attributes, has_parts=has_parts),
        is_recomputed=_MARKS[_number(where, attributes, _RECOMPUTED, len(_MARKS)) or 0],
    )


def placement_of(where: str, attributes: Mapping[str, Any]) -> Placement:
    """Return where a node runs, as its attributes say.

    Parameters
    ----------
    where
        The node, for messages.
    attributes
        As the node states them.

    Raises
    ------
    BadModel
        When a place is no number.
    """
    return Placement(**{of: _number(where, attributes, name) for of, name in _PLACES.items()})


def without_hints(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node that say what it computes."""
    return {
        name: value
        for name, value in attributes.items()
        if not name.startswith(_RESERVED) or name in COLLECTIVE_ATTRIBUTES
    }


def _number(
    where: str, attributes: Mapping[str, Any], name: str, end: int | None = None
) -> int | None:
    """Return a number, below an end; None if it is missing or negative, as PopART's for none are.

    Raises
    ------
    BadModel
        When it is not such a number.
    """
    value = attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or (end is not None and value >= end):
        below = "" if end is None else f" below {end}"
        raise BadModel(f"{where}: {name} must be an integer{below}, got {value!r}")
    return value if value >= 0 else None


def _proportion(where: str, attributes: Mapping[str, Any], *, has_parts: bool) -> float | None:
    stated = attributes.get(_AVAILABLE_MEMORY)
    if stated is None:
        return None
    # PopART writes a list for convolutions.
    numbers = list(stated) if isinstance(stated, list | tuple) else [stated]
    is_valid = all(isinstance(n, int | float) and is_proportion(n) for n in numbers)
    if not is_valid or not numbers or (len(numbers) > 1 and not has_parts):
        raise BadModel(
            f"{where}: {_AVAILABLE_MEMORY} must be above 0 and at most 1, got"
            f" {numbers[0] if len(numbers) == 1 else numbers}"
        )
    # The nearest short decimal: the file holds 0.3 as a float of 32 bits.
    return float(f"{min(numbers):.7g}")


def _partials_type(where: str, attributes: Mapping[str, Any], *, has_parts: bool) -> str | None:
    stated = attributes.get(_PARTIALS_TYPE)
    if stated is None:
        return None
    is_list = has_parts and isinstance(stated, list | tuple)
    several = list(stated) if is_list else [stated]
    names = [name.decode() if isinstance(name, bytes) else name for name in several]
    if not names or not all(isinstance(n, str) and n.lower() in PARTIALS_TYPES for n in names):
        raise BadModel(
            f"{where}: {_PARTIALS_TYPE} must be {' or '.join(PARTIALS_TYPES)}, got"
            f" {names if is_list else stated!r}"
        )
    lowered = {name.lower() for name in names}
    return lowered.pop() if len(lowered) == 1 else "float"
