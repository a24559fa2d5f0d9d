"""What PopART's attributes ask of the compiler for one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Hints
from tilescope.engine.options.available_memory import is_proportion
from tilescope.engine.options.catalogue import PARTIALS_TYPES

__all__ = ["HINT_ATTRIBUTES", "hints_of"]

#: Source: graphcore/popart, willow/include/popart/names.hpp: sAvailMemAttribute,
#: sPartialsTypeAttribute.
_AVAILABLE_MEMORY, _PARTIALS_TYPE = "__available_memory", "__partials_type"
HINT_ATTRIBUTES = frozenset({_AVAILABLE_MEMORY, _PARTIALS_TYPE})


def hints_of(where: str, attributes: Mapping[str, Any]) -> Hints:
    """Return the hints among a node's attributes.

    Parameters
    ----------
    where
        The node, for messages.
    attributes
        As the node states them.

    Raises
    ------
    BadModel
        When the proportion is not one number above 0, up to 1, or the type neither float nor half.
    """
    return Hints(_proportion(where, attributes), _partials_type(where, attributes))


def _proportion(where: str, attributes: Mapping[str, Any]) -> float | None:
    text = attributes.get(_AVAILABLE_MEMORY)
    if isinstance(text, list | tuple) and len(text) == 1:
        text = text[0]  # as PopART writes it for convolutions
    if text is None:
        return None
    if not isinstance(text, int | float) or not is_proportion(text):
        raise BadModel(
            f"{where}: {_AVAILABLE_MEMORY} must be above 0 and at most 1, got"
            f" {list(text) if isinstance(text, tuple) else text}"
        )
    # The nearest short decimal: the file holds 0.3 as a float of 32 bits.
    return float(f"{text:.7g}")


def _partials_type(where: str, attributes: Mapping[str, Any]) -> str | None:
    text = attributes.get(_PARTIALS_TYPE)
    if text is None:
        return None
    if not isinstance(text, str) or text.lower() not in PARTIALS_TYPES:
        raise BadModel(
            f"{where}: {_PARTIALS_TYPE} must be {' or '.join(PARTIALS_TYPES)}, got {text!r}"
        )
    return text.lower()
