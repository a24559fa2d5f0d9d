"""Imports the graph of an exported program, node by node."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilescope.engine.errors import BadModel, UnsupportedOperators
from tilescope.engine.frontend.torch.emission import Emission
from tilescope.engine.frontend.torch.places import line_of, module_path, place_of, scope_of
from tilescope.engine.frontend.torch.promotion import dtype_name
from tilescope.engine.frontend.torch.table import reason_of, rule_of
from tilescope.engine.ir import IrBuilder, Placement, ResultType, Value

__all__ = ["PLACE_KEYS", "GraphImport"]

#: Keys of a node's annotations that say where it runs; see `tilescope.engine.ir.Placement`.
PLACE_KEYS = ("ipu", "stage", "phase")

#: What numpy and ONNX raise for operands that no check foresaw.
_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class GraphImport:
    """Imports a graph into a builder.

    Parameters
    ----------
    builder
        Where operations go.
    module
        The ``torch.fx.GraphModule``.
    values
        What its placeholders stand for, by their names: values, or Python objects.
    sizes
        Of symbolic dimensions, by symbol.
    facts
        What rules note of the model as a whole, by subject.
    names
        Names of nodes so far, with their number.
    """

    def __init__(
        self,
        builder: IrBuilder,
        module: Any,
        values: Mapping[str, Any],
        sizes: dict[Any, int],
        facts: dict[str, Any],
        names: dict[str, int] | None = None,
    ) -> None:
        self.builder = builder
        self.module = module
        self.values: dict[str, Any] = dict(values)
        self.sizes = sizes
        self.facts = facts
        self._names: dict[str, int] = {} if names is None else names

    def add_nodes(self) -> Sequence[Any]:
        """Add the nodes and return the results of the graph.

        Raises
        ------
        UnsupportedOperators
            Lists every operator that has no rule, with its module and line.
        BadModel
            When a node cannot be used.
        """
        self._check_known()
        results: Sequence[Any] = ()
        begun = Placement()
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                results = self._resolved(node.args[0])
            elif node.op == "get_attr":
                self.values[node.name] = self._attribute(node)
            else:
                begun = self.facts.get("begun", begun)
                outside, self.builder.placement = (
                    self.builder.placement,
                    self._placement(node, begun),
                )
                self.values[node.name] = result = self._called(node)
                self._note_sizes(node, result)
                self.builder.placement = outside
        return results

    def _check_known(self) -> None:
        """Refuse a graph with operators that have no rule."""
        missing: dict[str, str] = {}
        for node in self.module.graph.nodes:
            if node.op == "call_function" and _is_overload(node.target):
                target = str(node.target)
                if rule_of(target) is None and target not in missing:
                    reason = reason_of(target) or "is not supported"
                    missing[target] = f"{target} {reason} ({place_of(node)})"
        if missing:
            raise UnsupportedOperators(
                f"{'; '.join(missing.values())}; the page PyTorch operators lists what is supported"
            )

    def _placement(self, node: Any, begun: Placement) -> Placement:
        """Return where a node runs: as it is annotated, else as the last stage that began."""
        stated = node.meta.get("custom") or {}
        numbers = {key: stated[key] for key in PLACE_KEYS if isinstance(stated.get(key), int)}
        return Placement(**numbers) if numbers else begun

    def _attribute(self, node: Any) -> Any:
        """Return what a node takes from the module: a tensor that is a constant, or a graph."""
        held = self.module
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if hasattr(held, "graph"):
            return held
        return self.builder.constant(held.detach().cpu().numpy(), str(node.target))

    def _called(self, node: Any) -> Any:
        """Return the results of a call: those of its rule, or Python's."""
        args, kwargs = self._resolved(node.args), self._resolved(node.kwargs)
        if node.target is operator.getitem:
            return args[0][args[1]]
        if not _is_overload(node.target) and not _is_region(node.target):
            return node.target(*args, **kwargs)  # of sizes
        line = line_of(node)
        emission = Emission(
            builder=self.builder,
            name=self._name(node),
            source=str(node.target).rpartition(".")[0] or str(node.target),
            place=place_of(node),
            types=self._types(node),
            line=None if line is None else (Path(line[0]).name, line[1]),
            facts=self.facts,
            graphs=self,
        )
        if _is_region(node.target):
            rule, bound = rule_of(f"higher_order.{node.target}"), (args, kwargs)
            if rule is None:
                emission.refuse("is not supported")
        else:
            rule, bound = rule_of(str(node.target)), _bound(node.target, args, kwargs)
        assert rule is not None, "checked before"
        try:
            return rule(emission, *bound[0], **bound[1])
        except BadModel as error:
            if emission.place in str(error):
                raise
            raise type(error)(f"{error} ({emission.place})") from error
        except _UNFORESEEN as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise BadModel(
                f"{emission.source} cannot be used with its operands: {reason} ({emission.place})"
            ) from error

    def _name(self, node: Any) -> str:
        """Return the debug name: scope, module path, operator, and a number if it repeats."""
        parts = (scope_of(node), module_path(node).replace(".", "/"))
        path = "/".join(part for part in parts if part)
        kind = str(node.target).split(".")[-2 if _is_overload(node.target) else -1]
        kind = re.sub(r"^_*(native_)?(.+?)(_legit.*|_functional)?$", r"\2", kind)
        name = f"{path}/{kind}" if path else kind
        number = self._names.get(name, 0)
        self._names[name] = number + 1
        return f"{name}_{number}" if number else name

    def _resolved(self, given: Any) -> Any:
        """Return arguments with values in place of nodes, and names in place of types."""
        if isinstance(given, list | tuple):
            return type(given)([self._resolved(item) for item in given])
        if isinstance(given, dict):
            return {key: self._resolved(item) for key, item in given.items()}
        if isinstance(given, slice):
            return given
        kind = type(given).__name__
        if kind == "Node":
            return self.values[given.name]
        if kind == "dtype":
            return dtype_name(given, "A result")
        if kind in ("device", "layout", "memory_format"):
            return str(given)
        if kind in ("SymInt", "SymFloat", "SymBool"):
            return self.size_of(given)
        return given

    def size_of(self, size: Any) -> Any:
        """Return the number of a symbolic size, or what is none; None for values not seen yet."""
        if not hasattr(size, "node"):
            return size
        number = size.node.expr.subs(self.sizes)
        if number.free_symbols:
            return None
        return int(number) if number.is_integer else float(number)

    def _note_sizes(self, node: Any, result: Any) -> None:
        """Note the sizes of a result that PyTorch left to data, and that turned out to be known."""
        held = node.meta.get("val")
        pairs = (
            zip(held, result, strict=False) if isinstance(held, tuple | list) else [(held, result)]
        )
        for meta, value in pairs:
            if not isinstance(value, Value) or not hasattr(meta, "shape"):
                continue
            for size, number in zip(meta.shape, value.shape, strict=False):
                if not isinstance(size, int) and size.node.expr.is_symbol:
                    self.sizes.setdefault(size.node.expr, number)

    def _types(self, node: Any) -> tuple[ResultType, ...]:
        """Return shapes and types of a node's results."""
        held = node.meta.get("val")
        several = held if isinstance(held, list | tuple) else [held]
        return tuple(
            (
                tuple(self.size_of(size) for size in one.shape),
                dtype_name(one.dtype, f"The result of {node.target} ({place_of(node)})"),
            )
            for one in several
            if hasattr(one, "shape")
        )

    def inlined(self, builder: IrBuilder, module: Any, operands: Sequence[Any]) -> Sequence[Any]:
        """Add the nodes of a graph inside the program and return its results.

        Parameters
        ----------
        builder
            Where they go.
        module
            The graph.
        operands
            What its placeholders stand for.
        """
        names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        values = dict(zip(names, operands, strict=True))
        graph = type(self)(builder, module, values, self.sizes, self.facts, self._names)
        return graph.add_nodes()

    def inside(self, builder: IrBuilder) -> GraphImport:
        """Return what imports into another builder, in a region of this one."""
        return type(self)(builder, self.module, {}, self.sizes, self.facts, self._names)


def _is_overload(target: Any) -> bool:
    return type(target).__name__ == "OpOverload"


def _is_region(target: Any) -> bool:
    """Return whether a target is an operator of graphs, such as a condition."""
    return any(kind.__name__ == "HigherOrderOperator" for kind in type(target).__mro__)


def _bound(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments as the schema of an operator has them, with its defaults.

    Those that are keywords in the schema stay keywords; all others are positional.
    """
    positional, keywords = [], {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(args):
            given = args[index]
        elif argument.name in kwargs:
            given = kwargs[argument.name]
        else:
            given = argument.default_value
        if argument.kwarg_only:
            keywords[argument.name] = given
        else:
            positional.append(given)
    return positional, keywords
