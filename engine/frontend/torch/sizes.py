"""Sizes of the dimensions that an exported program leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilescope.engine.errors import BadInput
from tilescope.engine.frontend.torch.structure import leaf_names

__all__ = ["sizes_of"]


def sizes_of(
    program: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dims: Mapping[str, int]
) -> dict[Any, int]:
    """Return the sizes of symbolic dimensions, by symbol.

    Parameters
    ----------
    program
        A ``torch.export.ExportedProgram``.
    args, kwargs
        Arguments whose shapes say sizes; may be empty.
    dims
        Sizes by the name of a ``torch.export.Dim``, or of a symbol.

    Raises
    ------
    BadInput
        When a dimension has no size, or `dims` names none or a size out of its range.
    """
    import torch
    from torch.utils import _pytree as pytree

    given = pytree.tree_leaves((tuple(args), dict(kwargs))) if args or kwargs else []
    sizes: dict[Any, int] = {}
    places: dict[Any, str] = {}
    titles: dict[Any, str] = {}
    names = leaf_names(program).inputs
    users = [
        node
        for spec, node in zip(
            program.graph_signature.input_specs,
            (n for n in program.graph.nodes if n.op == "placeholder"),
            strict=True,
        )
        if spec.kind.name == "USER_INPUT"
    ]
    for index, (node, label) in enumerate(zip(users, names, strict=True)):
        held = node.meta.get("val")
        if not isinstance(held, torch.Tensor):
            continue
        for axis, size in enumerate(held.shape):
            if isinstance(size, int):
                continue
            for symbol in size.node.expr.free_symbols:
                places.setdefault(symbol, f"dimension {axis} of argument {label!r}")
                titles.setdefault(symbol, _title(size, symbol))
            if index < len(given) and size.node.expr.is_symbol:
                sizes[size.node.expr] = int(given[index].shape[axis])
    known = {str(symbol): symbol for symbol in places}
    known |= {title: symbol for symbol, title in titles.items() if title}
    for name, number in dims.items():
        if name not in known:
            names_known = ", ".join(sorted(known)) or "none"
            raise BadInput(
                f"The program has no dimension {name!r} that is open; open: {names_known}"
            )
        sizes[known[name]] = number
    for symbol, place in places.items():
        title = titles[symbol] or str(symbol)
        if symbol not in sizes:
            raise BadInput(f"The program leaves {place} open: give its size, dims={{{title!r}: …}}")
        limits = program.range_constraints.get(symbol)
        number = sizes[symbol]
        if limits is not None and not limits.lower <= number <= limits.upper:
            raise BadInput(
                f"Dimension {title!r} has {limits.lower} to {limits.upper} elements, and {number}"
                " was given"
            )
    return sizes


def _title(size: Any, symbol: Any) -> str:
    """Return the name of the ``torch.export.Dim`` of a symbol; "" where the program lost it."""
    environment = size.node.shape_env
    titles = getattr(environment, "source_name_to_debug_name", {})
    sources = getattr(environment, "var_to_sources", {}).get(symbol, [])
    found = [
        titles[s.name] if isinstance(s.name, str) else titles.get(s.name(), "")
        for s in sources
        if (s.name if isinstance(s.name, str) else s.name()) in titles
    ]
    return found[0] if found else ""
