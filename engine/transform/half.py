"""Models of floats in half: which operators compute in half is decided by a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilescope.engine.ir import (
    Constant,
    IrBuilder,
    Model,
    Node,
    Operation,
    Parameter,
    Region,
    Value,
)
from tilescope.engine.ir.half_policy import THROUGHOUT, HalfPolicy, Precision
from tilescope.engine.ir.standard import standard
from tilescope.engine.notice import Notice
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.transform.policy_entries import check_entries, kinds_of

__all__ = ["in_half"]

_LIMITS = np.finfo(np.float16)


def in_half(model: Model, *, has_masters: bool = False, policy: HalfPolicy = THROUGHOUT) -> Model:
    """Return the model with half in place of float, as PopART's ``convertFloatsToHalfs``.

    Inputs and weights are half, and the results of all operators, except where the policy keeps
    them in float. Finite weights beyond half's range become its largest number, and those that
    would be zero its smallest, so that masks stay finite and divisors are not zero. Operands that
    ONNX defines as float only, such as the scales of Resize, keep their type; an operator on a
    computed one runs in float, between casts. Doubles stay.

    Parameters
    ----------
    model
        As a front end built it: constants are folded in float.
    has_masters
        Whether weights that are trained stay in float, so that small steps change them; what reads
        them in half takes a copy.
    policy
        Which operators compute in half; by default all. Where some stay in float, a notice of the
        model says how many.

    Raises
    ------
    BadOption
        When the policy names what the model does not have.
    """
    check_entries(policy, model)
    shared = _Shared(policy, has_masters)
    builder = _HalfBuilder(model.name, shared)
    values = {value: shared.halved(value) for value in model.inputs}
    builder.inputs = list(values.values())
    builder.copy(model.operations, values)
    outputs = [(name, builder.output(value, values)) for name, value in model.outputs]
    converted = builder.finish(outputs)
    return replace(
        model,
        inputs=converted.inputs,
        outputs=converted.outputs,
        operations=converted.operations,
        notices=(*model.notices, *shared.notices()),
    )


@dataclass
class _Shared:
    """What the builders of a model and of its regions have in common.

    Parameters
    ----------
    policy, has_masters
        As of `in_half`.
    constants
        In half, by what they are in float.
    halves
        Computed values in half that were float in the model.
    nodes
        Number of nodes by type and kind.
    """

    policy: HalfPolicy
    has_masters: bool
    constants: dict[Value, Value] = field(default_factory=dict)
    halves: set[Value] = field(default_factory=set)
    nodes: dict[str, Counter[str]] = field(
        default_factory=lambda: {"half": Counter(), "float": Counter()}
    )
    n_casts: int = 0

    def halved(self, value: Value) -> Value:
        """Return a value of floats in half; another value as it is."""
        if value.dtype != "float32":
            return value
        half = _halved(value)
        self.halves.add(half)
        return half

    def notices(self) -> tuple[Notice, ...]:
        """Return what the policy did, where it left something in float."""
        if not (self.nodes["float"] and (self.policy.rules or self.policy.is_changed)):
            return ()
        stated = ", ".join(
            f"{counts.total():,} in {name} ({_listed(counts)})"
            for name, counts in self.nodes.items()
            if counts
        )
        text = f"Policy {self.policy.name!r} of half: operators {stated}; {self.n_casts:,} casts"
        return (Notice("info", "half_policy", text),)


class _HalfBuilder(IrBuilder):
    """Adds nodes in the types of a policy.

    Parameters
    ----------
    name
        Of the model or of a region.
    shared
        What all builders have.
    """

    def __init__(self, name: str, shared: _Shared) -> None:
        super().__init__(name)
        self.keeps_draws = True
        self._shared = shared
        self._casts: dict[tuple[Value, str], Value] = {}
        self._has_float_regions = False
        self._computed_in = "half"

    def output(self, value: Value, values: Mapping[Value, Value]) -> Value:
        """Return an output of the model."""
        here = values.get(value, value)
        if not self._shared.policy.has_float_outputs:
            return self._in_half(here)
        return self._in_float(here) if value.dtype == "float32" else here

    def inside(self, name: str) -> IrBuilder:
        return _HalfBuilder(name, self._shared)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            if operation.regions:
                inputs = [None if v is None else values.get(v, v) for v in operation.inputs]
                self._has_float_regions = self._is_in_float(operation, inputs)
            super().copy([operation], values)
            was_float = [value for value in operation.results if value.dtype == "float32"]
            became = {values.get(value, value) for value in was_float}
            self._shared.halves.update(value for value in became if value.dtype == "float16")
            if was_float or any(value.dtype == "float32" for value in operation.operands):
                self._shared.nodes[self._computed_in][operation.source] += 1

    def copied(self, region: Region, values: Mapping[Value, Value]) -> Region:
        inside, is_float = _HalfBuilder(region.name, self._shared), self._has_float_regions
        inputs = {v: v if is_float else self._shared.halved(v) for v in region.inputs}
        here = {**values, **inputs}
        inside.copy(region.operations, here)
        as_decided = inside._in_float if is_float else inside._to_half
        outputs = [
            as_decided(here.get(value, value))
            if value.dtype == "float32"
            else here.get(value, value)
            for value in region.outputs
        ]
        return inside.region(tuple(inputs.values()), outputs)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        kinds = kinds_of(node)
        if self._shared.policy.has_half_partials(kinds, node.name):
            node = replace(node, hints=replace(node.hints, partials_type="half"))
        takes_half = _takes_half(node)
        if self._is_in_float(node, node.inputs):
            return self._add_in_float(node, outputs)
        if any(
            not takes and self._is_halved(value)
            for takes, value in zip(takes_half, node.inputs, strict=True)
        ):
            results = self._add_in_float(node, outputs)
            return tuple(
                self._cast_for(node, value, "float16")
                if value is not None and value.dtype == "float32"
                else value
                for value in results
            )
        inputs = tuple(
            self._to_half(value) if value is not None and takes else value
            for takes, value in zip(takes_half, node.inputs, strict=True)
        )
        self._computed_in = "half"
        return super().add(
            replace(node, inputs=inputs, attributes=standard().half_attributes(node)), outputs
        )

    def _is_in_float(self, node: Node, inputs: Sequence[Value | None]) -> bool:
        """Return whether a node computes in float by the policy, given its new operands."""
        precision = self._shared.policy.of(kinds_of(node), node.name)
        if precision != Precision.OPERANDS:
            return precision == Precision.FLOAT
        return any(
            takes and value is not None and value.is_computed and value.dtype == "float32"
            for takes, value in zip(_takes_half(node), inputs, strict=True)
        )

    def _is_halved(self, value: Value | None) -> bool:
        return value is not None and value.is_computed and value in self._shared.halves

    def _add_in_float(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add a node on floats; its results are float."""
        self._computed_in = "float"
        inputs = tuple(None if value is None else self._in_float(value) for value in node.inputs)
        return super().add(replace(node, inputs=inputs), outputs)

    def _in_float(self, value: Value) -> Value:
        """Return a value that is half instead of float in float; another value as it is."""
        if isinstance(value, Parameter) and value.dtype == "float32" and not self._is_master(value):
            value = self._in_half(value)  # all readers have the same weight
        is_half = self._is_halved(value) or (
            isinstance(value, Parameter) and value in self._shared.halves
        )
        return self._cast(value, "float32") if is_half else value

    def _to_half(self, value: Value) -> Value:
        """Return a value of floats in half, computed ones too."""
        if value.is_computed and value.dtype == "float32":
            return self._cast(value, "float16")
        return self._in_half(value)

    def _in_half(self, value: Value) -> Value:
        """Return a constant or a weight in half; computed values have their type already."""
        if value.is_computed or value.dtype != "float32":
            return value
        if self._is_master(value):
            return self._cast(value, "float16")
        constants = self._shared.constants
        if value not in constants:
            constants[value] = self._shared.halved(value)
        return constants[value]

    def _is_master(self, value: Value) -> bool:
        return self._shared.has_masters and isinstance(value, Parameter) and value.is_trainable

    def _cast(self, value: Value, dtype: str) -> Value:
        """Return a value in another type, cast once for all readers."""
        key = value, dtype
        if key not in self._casts:
            name = f"{value.name}/{'half' if dtype == 'float16' else 'float'}"
            node = Node(
                operator=CAST,
                name=name,
                source="Cast",
                inputs=(value,),
                attributes={"dtype": dtype},
            )
            (cast,) = super().add(node, (name,))
            assert cast is not None
            self._casts[key] = self._note(cast)
        return self._casts[key]

    def _cast_for(self, node: Node, value: Value, dtype: str) -> Value:
        """Emit a cast that belongs to a node."""
        return self._note(
            super().emit(
                CAST, [value], name=node.name, source=node.source, output=value.name, dtype=dtype
            )
        )

    def _note(self, cast: Value) -> Value:
        self._shared.n_casts += 1
        if cast.dtype == "float16":
            self._shared.halves.add(cast)
        return cast


def _takes_half(node: Node) -> list[bool]:
    return [standard().takes_half(node, i) for i in range(len(node.inputs))]


def _listed(counts: Counter[str], most: int = 6) -> str:
    """Return the most frequent kinds with their numbers."""
    shown = [f"{kind} {count:,}" for kind, count in counts.most_common(most)]
    rest = counts.total() - sum(count for _, count in counts.most_common(most))
    return ", ".join([*shown, *([f"others {rest:,}"] if rest else [])])


def _halved(value: Value) -> Value:
    """Return a value of floats in half."""
    if not isinstance(value, Constant | Parameter):
        return replace(value, dtype="float16")
    floats = np.asarray(value.array)
    with np.errstate(over="ignore"):
        array = floats.astype(np.float16)
    is_lost = (array == 0) & (floats != 0)
    array[is_lost] = np.copysign(_LIMITS.smallest_subnormal, floats[is_lost])
    is_beyond = np.isinf(array) & np.isfinite(floats)
    array[is_beyond] = np.copysign(_LIMITS.max, floats[is_beyond])
    return replace(value, dtype="float16", array=array)
