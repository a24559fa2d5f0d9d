"""Names of arguments and results by their places in what a module takes and returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilescope.engine.frontend.torch.containers import NAMES

__all__ = ["LeafNames", "leaf_names"]

_OUTPUT = "output"


@dataclass(frozen=True)
class LeafNames:
    """Names of leaves, in the order of the program.

    Parameters
    ----------
    inputs
        The argument's name, with the keys of what is nested in it: ``batch.ids.0``.
    outputs
        ``output``, with the keys of what is nested in it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def leaf_names(program: Any) -> LeafNames:
    """Return the names of the leaves of an exported program.

    Parameters
    ----------
    program
        A ``torch.export.ExportedProgram``.
    """
    positional, keyword = program.call_spec.in_spec.children()
    signature = program.module_call_graph[0].signature
    arguments = list(getattr(signature, "forward_arg_names", None) or [])
    inputs: list[str] = []
    for index, spec in enumerate(positional.children()):
        label = arguments[index] if index < len(arguments) else f"arg{index}"
        inputs += _leaves(spec, label)
    for label, spec in zip(keyword.context or [], keyword.children(), strict=True):
        inputs += _leaves(spec, str(label))
    return LeafNames(tuple(inputs), tuple(_leaves(program.call_spec.out_spec, _OUTPUT)))


def _leaves(spec: Any, path: str) -> Iterator[str]:
    """Yield the names of the leaves below a place."""
    if spec.is_leaf():
        yield path
        return
    for key, inner in zip(_keys(spec), spec.children(), strict=True):
        yield from _leaves(inner, f"{path}.{key}")


def _keys(spec: Any) -> list[Any]:
    """Return what tells the parts of a container apart: keys, names of fields, or numbers."""
    n_parts: int = spec.num_children
    context: Any = spec.context
    if isinstance(context, dict) and NAMES in context:
        return list(context[NAMES])
    fields: Any = getattr(context, "_fields", None) or getattr(spec.type, "_fields", None)
    for keys in (fields, context):
        if not isinstance(keys, list | tuple):
            continue
        if len(keys) == n_parts and all(isinstance(key, str | int) for key in keys):
            return list(keys)
        nested: Any = keys[1] if len(keys) == 2 else None
        if isinstance(nested, list) and len(nested) == n_parts:  # of a defaultdict
            return nested
    return list(range(n_parts))
