"""What all optimisers have: a rate, weight decay, loss scaling, clipping, and numbers by tensor."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import (
    Emitter,
    Locations,
    Parameter,
    Purpose,
    ReplicaGroup,
    State,
    Update,
    Value,
)
from tilescope.engine.operators.collectives import ALL_REDUCE
from tilescope.engine.operators.elementwise.elementwise import BINARY
from tilescope.engine.operators.elementwise.mapped import SCALED_ADD, call, operand
from tilescope.engine.training.optimisers.clipping import ClipGroup
from tilescope.engine.training.optimisers.emission import Numbers, OfAll, Shared, Step, Tools
from tilescope.engine.training.optimisers.hyper import (
    Number,
    Ranges,
    check_ranges,
    last_match,
    parsed_options,
)
from tilescope.engine.training.optimisers.loss_scaling import AutomaticScaling, Scaler
from tilescope.engine.training.stated import as_options, stated

__all__ = ["Descent", "Updates"]

#: Before the name of a parameter, in that of the sum of its gradients over micro-batches.
_ACCUMULATOR = "Accum___"  # Source: graphcore/popart, willow/include/popart/names.hpp

#: Types that states and sums may have; "" stands for that of the weight.
_TYPES = ("", "float32", "float16")

#: What belongs to all tensors: no tensor has its own.
_COMMON = (
    "loss_scaling",
    "scaling",
    "clip_norm",
    "clip_groups",
    "clip_value",
    "specific",
    "seed",
)

#: Added to the norm of gradients before it is divided by, as PyTorch does.
_NORM_EPSILON = 1e-6

#: Fields that say how numbers are computed with.
_NOT_NUMBERS = ("constants", "varying", "clip_groups")

_ANY = (0.0, np.inf, False)


@dataclass(frozen=True, kw_only=True)
class Descent(ABC):
    """An optimiser: decides how gradients change parameters.

    Parameters
    ----------
    lr
        The rate.
    weight_decay
        How much weights shrink.
    loss_scaling
        What gradients are multiplied by until they change weights, so that those of halves do not
        vanish.
    scaling
        Lets the device choose the loss scaling; `loss_scaling` is 1 then.
    clip_norm
        Gradients are scaled so that the norm of all of them is at most this; 0 leaves them.
    clip_groups
        Weights that have a limit of the norm of their own.
    clip_value
        Elements of gradients are at most this far from 0; 0 leaves them. It comes before the norm.
    is_constant
        Whether the host leaves all numbers as they are: they are constants of the program then.
    constants
        Names of those that the host leaves as they are, otherwise.
    varying
        Names of those that the program computes with though they change nothing yet, since the host
        may set another value later: weight decay and momentum at 0, the loss scaling at 1.
    state_dtype
        Type of what the optimiser keeps of a weight: ``float32`` or ``float16``; empty for
        that which the optimiser computes in. Squares of gradients stay float.
    sum_dtype
        Type of the sum of gradients over micro-batches; empty for that of the weight.
    stochastic_rounding
        Whether weights and states in half are rounded to one of the two neighbours by chance, so
        that steps too small for half change them in the mean.
    seed
        What the chance is drawn from.
    specific
        Other values for some weights: by a pattern of their names, values by name. Of several
        patterns that a name matches, the last one holds.

    Raises
    ------
    BadOption
        When a value is out of range.
    """

    lr: float
    weight_decay: float = 0.0
    loss_scaling: float = 1.0
    scaling: AutomaticScaling | None = None
    clip_norm: float = 0.0
    clip_groups: tuple[ClipGroup, ...] = ()
    clip_value: float = 0.0
    is_constant: bool = False
    constants: tuple[str, ...] = ()
    varying: tuple[str, ...] = ()
    state_dtype: str = ""
    sum_dtype: str = ""
    stochastic_rounding: bool = False
    seed: int = 0
    specific: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    #: Name on the command line.
    kind: ClassVar[str]
    #: Type of its operations in reports.
    source: ClassVar[str]
    #: Least and largest values of the numbers that all optimisers have, and of its own.
    common_ranges: ClassVar[Ranges] = dict.fromkeys(
        ("lr", "weight_decay", "clip_norm", "clip_value"), _ANY
    )
    ranges: ClassVar[Ranges] = {}

    def __post_init__(self) -> None:
        """Check the values."""
        check_ranges(self.kind, self, {**self.common_ranges, **self.ranges})
        if not (np.isfinite(self.loss_scaling) and self.loss_scaling > 0):
            raise BadOption(
                f"{self.kind}: loss_scaling is {self.loss_scaling:g}; it has to be above 0"
            )
        if self.scaling is not None and self.loss_scaling != 1:
            raise BadOption(
                f"{self.kind}: loss_scaling is {self.loss_scaling:g} and chosen by the device:"
                " leave one of them out"
            )
        for name in ("state_dtype", "sum_dtype"):
            if getattr(self, name) not in _TYPES:
                raise BadOption(
                    f"{self.kind}: {name} is {getattr(self, name)!r}; it has to be float32 or"
                    " float16"
                )
        names = [f.name for f in fields(self)]
        for word, listed in (("be constant", self.constants), ("vary", self.varying)):
            for name in listed:
                if name not in names:
                    raise BadOption(f"{self.kind} has no number {name!r} that could {word}")
        if self.clip_norm and self.clip_groups:
            raise BadOption(
                f"{self.kind}: clip_norm is of all weights and clip_groups of some: leave one of"
                " them out"
            )
        for pattern, values in self.specific.items():
            for name in values:
                if name not in names or name in _COMMON:
                    allowed = ", ".join(n for n in names if n not in _COMMON)
                    raise BadOption(
                        f"{self.kind}: weights {pattern!r} cannot have a {name!r} of their own:"
                        f" choose from {allowed}"
                    )
            self._of_group(pattern)  # checks its values
        self.check()

    def check(self) -> None:  # noqa: B027 # some have nothing to check
        """Refuse what does not go together.

        Raises
        ------
        BadOption
            Says what.
        """

    def computes(self, name: str) -> bool:
        """Return whether the program computes with a hyper-parameter: not if it stays 0."""
        return bool(getattr(self, name) != 0 or name in self.varying)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.lr

    def scaled(self, factor: float) -> Self:
        """Return the optimiser with all rates multiplied, as a schedule does."""
        specific = {
            pattern: {**values, **({"lr": values["lr"] * factor} if "lr" in values else {})}
            for pattern, values in self.specific.items()
        }
        return replace(self, lr=self.lr * factor, specific=specific)

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> Self:
        """Return the optimiser of options as the command line has them.

        Raises
        ------
        BadOption
            When one is unknown, or its value is not of its kind.
        """
        options = dict(options)
        stated: dict[str, Any] = {}
        if options.get("loss_scaling") == "automatic":
            del options["loss_scaling"]
            stated["scaling"] = AutomaticScaling()
        stated |= parsed_options(cls.kind, cls, options)
        needed = {
            f.name for f in fields(cls) if f.name == "lr" and not isinstance(f.default, float)
        }
        if needed - set(stated):
            raise BadOption(f"{cls.kind} needs a rate: write {cls.kind}:lr=0.01")
        return cls(**stated)

    def with_specific(self, pattern: str, options: Mapping[str, str]) -> Self:
        """Return the optimiser with other values for the weights of a pattern, from text.

        Raises
        ------
        BadOption
            When one is unknown, or its value is not of its kind.
        """
        values = parsed_options(self.kind, type(self), options)
        return replace(self, specific={**self.specific, pattern: values})

    @abstractmethod
    def numbers(self, factor: float) -> Mapping[str, Number]:
        """Return what the device computes with, by name, without numbers of other weights.

        Parameters
        ----------
        factor
            What a sum of gradients is multiplied by.
        """

    @abstractmethod
    def step(self, step: Step) -> list[Update]:
        """Emit the update of a parameter."""

    def computed_in(self, dtype: str) -> str:
        """Return the type in which weights of a type are updated."""
        del dtype
        return "float32"

    def settings(self, factor: float) -> dict[str, float]:
        """Return the numbers that the host may change, by name; see `ir.Optimiser`."""
        return {
            name: number.value
            for name, number in self._all_numbers(factor).items()
            if not self._of_group(_group_of(name)).is_fixed(number)
        }

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of it, by key; see `ir.Optimiser`."""
        text = stated(self.kind, self, [*_NOT_NUMBERS, "scaling", "specific"])
        others = {"loss_scaling": "automatic"} if self.scaling is not None else {}
        if others:
            text += f"{',' if ':' in text else ':'}{as_options(others)}"
        numbers = {
            pattern: {name: value for name, value in values.items() if name not in _NOT_NUMBERS}
            for pattern, values in self.specific.items()
        }
        groups = [f"{pattern}:{as_options(values)}" for pattern, values in numbers.items()]
        facts = {"optimizer": text}
        if self.clip_groups:
            facts["clip_norm_for"] = json.dumps([str(group) for group in self.clip_groups])
        return facts | ({"optimizer_for": json.dumps(groups)} if groups else {})

    @property
    def structure(self) -> str:
        """What the program depends on: kinds, choices, and the numbers that are constant."""
        choices = {
            pattern: [
                (f.name, getattr(self._of_group(pattern), f.name))
                for f in fields(self)
                if f.name not in ("specific", "constants")
                and not isinstance(f.default, float)
                and f.name != "lr"
            ]
            for pattern in ("", *self.specific)
        }
        fixed = {
            name: number.value if self._of_group(_group_of(name)).is_fixed(number) else None
            for name, number in self._all_numbers(1.0).items()
        }
        return f"{self.kind} {choices} {fixed} {self.clip_norm > 0} {self.clip_value > 0}"

    def updater(
        self, factor: float, n_replicas: int = 1, locations: Locations | None = None
    ) -> Updates:
        """Return what emits the updates of a model; see `ir.Optimiser`."""
        return Updates(self, factor, n_replicas, locations or Locations())

    @property
    def keeps_states(self) -> bool:
        """Whether it keeps values of the shape of a weight from step to step."""
        return True

    def is_fixed(self, number: Number) -> bool:
        """Return whether the host leaves a number as it is."""
        return self.is_constant or all(name in self.constants for name in number.of)

    def sum_of(self, parameter: Parameter) -> State:
        """Return the state that has the sum of gradients, or what they are added to."""
        dtype = self.sum_dtype or parameter.dtype
        zeros = np.zeros(parameter.shape, dtype)
        name, purpose = _ACCUMULATOR + parameter.name, Purpose.GRADIENT
        return State(name, parameter.shape, dtype, zeros, like=parameter, purpose=purpose)

    @property
    def added_by(self) -> str:
        """Name of the number that gradients are multiplied by when they are added to the sum.

        Empty where they are added as they are, and the sum begins at 0 again after a step.
        """
        return ""

    def _of_group(self, pattern: str) -> Self:
        """Return the optimiser of the weights of a pattern; of the others if it is empty."""
        if not pattern:
            return self
        return replace(self, specific={}, **dict(self.specific[pattern]))

    def group_of(self, parameter: Parameter) -> str:
        """Return the pattern whose values a parameter has; "" if none."""
        return last_match(parameter.name, self.specific)

    def of_group(self, pattern: str) -> Self:
        """Return the optimiser that a pattern's weights have."""
        return self._of_group(pattern)

    def common_numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers that all weights have in common."""
        numbers: dict[str, Number] = {}
        if self.loss_scaling != 1 or ("loss_scaling" in self.varying and self.scaling is None):
            numbers["lossScaling"] = Number(self.loss_scaling, ("loss_scaling",))
        if self.clip_value:
            numbers["clipValue"] = Number(self.clip_value, ("clip_value",))
            numbers["clippedFactor"] = Number(factor, ("loss_scaling",), 1)
        if self.clip_norm:
            numbers["clipNorm"] = Number(self.clip_norm, ("clip_norm",))
            numbers["normFactor"] = Number(self.factor_after(factor), ("loss_scaling",), 1)
        if not all(group.is_scaled for group in self.clip_groups):
            numbers["groupFactor"] = Number(self.factor_after(factor), ("loss_scaling",), 1)
        return numbers

    def factor_after(self, factor: float) -> float:
        """Return the factor of gradients after their elements were clipped."""
        return 1.0 if self.clip_value else factor

    def _all_numbers(self, factor: float) -> dict[str, Number]:
        """Return all numbers, those of a pattern with it behind their names."""
        numbers = self.common_numbers(factor)
        after = self.factor_after(factor)
        for pattern in ("", *self.specific):
            of_group = self._of_group(pattern).numbers(after)
            numbers |= {_named(name, pattern): number for name, number in of_group.items()}
        return numbers


#: Between the name of a number and the pattern of the weights whose it is.
_BESIDE = "___specific___"


def _named(name: str, pattern: str) -> str:
    return f"{name}{_BESIDE}{pattern}" if pattern else name


def _group_of(name: str) -> str:
    return name.partition(_BESIDE)[2]


class Updates:
    """Emits what an optimiser does in a model; see `ir.Updater`.

    Parameters
    ----------
    optimiser
        The optimiser.
    factor
        What the sums of gradients are multiplied by.
    n_replicas
        Replicas whose gradients are summed.
    locations
        Where values are kept: states may be in shards, by replica.

    Raises
    ------
    BadOption
        When states are to be in shards that gradients of micro-batches are added to.
    """

    def __init__(
        self, optimiser: Descent, factor: float, n_replicas: int, locations: Locations
    ) -> None:
        self._locations = locations
        self._optimiser, self._factor, self._n_replicas = optimiser, factor, n_replicas
        self._scaler = None if optimiser.scaling is None else Scaler(optimiser.scaling)
        self._of_group = {p: optimiser.of_group(p) for p in ("", *optimiser.specific)}
        self._numbers = {p: Numbers(o.is_fixed) for p, o in self._of_group.items()}
        self._sums: dict[Parameter, tuple[State, ...]] = {}
        self._shared: dict[tuple[str, str], tuple[Value, ...]] = {}
        self._updates: list[Update] = []
        words = np.array([optimiser.seed], np.int64).view(np.int32)
        self._seed = State("roundingSeed", (2,), "int32", words)

    def scaling(self, builder: Emitter, dtype: str) -> Value | None:
        """Return what the gradient of the loss starts as, a scalar; None where that is constant."""
        if self._scaler is not None:
            return self._tools(builder).cast(self._scaler.factor, dtype)
        number = self._optimiser.common_numbers(1.0).get("lossScaling")
        if number is None or self._optimiser.is_fixed(number):
            return None
        return self._common(self._tools(builder), "lossScaling", None, dtype)

    def accumulated(
        self, builder: Emitter, parameter: Parameter, gradients: Sequence[Value]
    ) -> list[Update]:
        """Emit the addition of a micro-batch's gradients to the sums, one of every stage."""
        if self._optimiser_of(parameter).added_by:  # they are added to a state, of which one exists
            whole = _summed(Tools(builder, gradients[0].name, "Accumulate"), gradients)
            return [self._added(builder, parameter, whole, self._sum_of(parameter))]
        first = self._sum_of(parameter)
        self._sums[parameter] = totals = (
            first,
            *(replace(first, name=f"{first.name}/{i}") for i in range(1, len(gradients))),
        )
        return [
            self._added(builder, parameter, gradient, total)
            for gradient, total in zip(gradients, totals, strict=True)
        ]

    def _added(
        self, builder: Emitter, parameter: Parameter, gradient: Value, total: State
    ) -> Update:
        """Emit the addition of a gradient to a sum of a parameter's."""
        optimiser = self._optimiser_of(parameter)
        tools = Tools(builder, total.name, "Accumulate")
        operands = [total, tools.cast(gradient, total.dtype)]
        if not optimiser.added_by:
            return Update(total, tools.emit(SCALED_ADD, operands, scale=1.0))
        operands.append(self._number(tools, parameter, optimiser.added_by, total.dtype, None))
        return Update(total, tools.emit(SCALED_ADD, operands))

    def closing(self, builder: Emitter) -> list[Update]:
        """Emit the updates from the sums of micro-batches, which begin again."""
        tools = self._tools(builder)
        updates = self.updates(
            builder, {parameter: _summed(tools, totals) for parameter, totals in self._sums.items()}
        )
        return updates + [
            Update(total, tools.constant(np.zeros(total.shape), "zeros", total.dtype))
            for parameter, totals in self._sums.items()
            if not self._optimiser_of(parameter).added_by
            for total in totals
        ]

    def updates(self, builder: Emitter, gradients: Mapping[Parameter, Value]) -> list[Update]:
        """Emit the updates of parameters and of the optimiser's states from gradients."""
        tools = self._tools(builder)
        changes: list[Update] = []
        scale, is_fine = None, None
        gradients = {
            parameter: gradient
            if self._optimiser_of(parameter).added_by
            else self._over_replicas(builder, parameter, gradient)
            for parameter, gradient in gradients.items()
        }
        if self._scaler is not None:
            scale = self._scaler.inverse(tools)
            changes, is_fine = self._scaler.changes(
                tools,
                [*gradients.values()],
                sum(prod(parameter.shape) for parameter in gradients),
                partial(self._total, tools, [*gradients]),
            )
        if self._optimiser.clip_value:
            gradients = {p: self._limited(builder, p, g, scale) for p, g in gradients.items()}
            scale = None
        if self._optimiser.clip_norm:
            scale = self._shrunk(tools, gradients, scale)
        scales = dict.fromkeys(gradients, scale)
        for group in self._optimiser.clip_groups:
            members = {p: g for p, g in gradients.items() if group.has(p.name)}
            if members:
                scales |= dict.fromkeys(members, self._limit(tools, group, members, scale))
        for parameter, gradient in gradients.items():
            self._updates += self._step(builder, parameter, gradient, scales[parameter])
        if any(optimiser.stochastic_rounding for optimiser in self._of_group.values()):
            one = tools.constant([0, 1], "one", "int32")
            following = tools.emit(BINARY, [self._seed, one], function="add")
            changes.append(Update(self._seed, following))
        if self._scaler is None or is_fine is None:
            return changes + self._updates
        return changes + [Scaler.guarded(tools, u, is_fine) for u in self._updates]

    def _over_replicas(self, builder: Emitter, parameter: Parameter, gradient: Value) -> Value:
        """Emit the sum of the gradients of the replicas that share a weight, or a shard of it."""
        group, sharded_by = self._group_of(parameter), self._sharded_by(parameter)
        if group.size == 1:
            return gradient
        if sharded_by is not None:
            name = f"ReduceGradient/{parameter.name}"
            tools = Tools(builder, name, "ReplicatedReduceScatter")
            return tools.shard(gradient, sharded_by, "add")
        tools = Tools(builder, f"ReduceGradient/{parameter.name}", "ReplicatedAllReduce")
        return tools.emit(
            ALL_REDUCE, [gradient], operation="add", size=group.size, stride=group.stride
        )

    def _group_of(self, parameter: Parameter) -> ReplicaGroup:
        return parameter.shared_by or ReplicaGroup(self._n_replicas)

    def _sharded_by(self, parameter: Parameter) -> ReplicaGroup | None:
        """Return the replicas that update a shard of a weight each; None if all update all of it.

        Raises
        ------
        BadOption
            When gradients of micro-batches would be added to shards.
        """
        optimiser, group = self._optimiser_of(parameter), self._group_of(parameter)
        n_elements = prod(parameter.shape)
        location = self._locations.of("optimizer-state", "", n_elements)
        if not location.is_sharded or group.size == 1 or not optimiser.keeps_states:
            return None
        if optimiser.added_by:
            raise BadOption(
                f"{self._optimiser.kind}: is_combined adds gradients to the velocity of every"
                " replica, which cannot be sharded: leave out is_combined, or the sharding"
            )
        return group

    def _total(
        self, tools: Tools, parameters: Sequence[Parameter], scalars: Sequence[Value]
    ) -> Value:
        """Emit the sum of a scalar of every weight, those of shards over the replicas."""
        by_group: dict[ReplicaGroup | None, list[Value]] = defaultdict(list)
        for parameter, scalar in zip(parameters, scalars, strict=True):
            by_group[self._sharded_by(parameter)].append(scalar)
        totals = [
            tools.total(members) if group is None else tools.over(group, tools.total(members))
            for group, members in by_group.items()
        ]
        return tools.total(totals)

    def _square_sum(self, tools: Tools, gradients: Mapping[Parameter, Value]) -> Value:
        """Emit the sum of the squares of gradients, of all their shards."""
        squares = [tools.square_sum(gradient) for gradient in gradients.values()]
        return self._total(tools, [*gradients], squares)

    def _tools(self, builder: Emitter) -> Tools:
        return Tools(builder, "Update", self._optimiser.source)

    def _common(
        self, tools: Tools, name: str, scale: Value | None, dtype: str = "float32"
    ) -> Value:
        number = self._optimiser.common_numbers(self._factor)[name]
        return self._numbers[""].value(tools, name, number, dtype, scale)

    def _optimiser_of(self, parameter: Parameter) -> Descent:
        return self._of_group[self._optimiser.group_of(parameter)]

    def _sum_of(self, parameter: Parameter) -> State:
        if parameter not in self._sums:
            state = self._optimiser_of(parameter).sum_of(parameter)
            if parameter.shared_by is not None and state.array.any():
                raise BadOption(
                    f"{self._optimiser.kind}: groups of replicas have values of their own of"
                    f" {parameter.name!r}, and what gradients are added to begins with its decay:"
                    " use no weight decay with is_combined there"
                )
            n_shares = self._group_of(parameter).size
            if n_shares > 1:  # every replica has its share of what the sums begin with
                share = (state.array / n_shares).astype(state.dtype)
                state = replace(state, array=share, n_shares=n_shares)
            self._sums[parameter] = (state,)
        return self._sums[parameter][0]

    def _number(
        self, tools: Tools, parameter: Parameter, name: str, dtype: str, scale: Value | None
    ) -> Value:
        pattern = self._optimiser.group_of(parameter)
        number = self._of_group[pattern].numbers(self._optimiser.factor_after(self._factor))[name]
        return self._numbers[pattern].value(tools, _named(name, pattern), number, dtype, scale)

    def _limited(
        self, builder: Emitter, parameter: Parameter, gradient: Value, scale: Value | None
    ) -> Value:
        """Emit a gradient with limited elements, times its factor."""
        tools = Tools(builder, f"Update/{parameter.name}", self._optimiser.source)
        factor = self._common(tools, "clippedFactor", scale)
        bound = self._common(tools, "clipValue", None)
        x, limit = operand(0) * operand(1), operand(2)
        clamped = call("minimum", call("maximum", x, -limit), limit)
        return tools.mapped(clamped, tools.cast(gradient, "float32"), factor, bound)

    def _shrunk(
        self, tools: Tools, gradients: Mapping[Parameter, Value], scale: Value | None
    ) -> Value:
        """Emit what gradients are multiplied by so that their norm is not too large."""
        squares = self._square_sum(tools, gradients)
        factor, most = (
            self._common(tools, "normFactor", scale),
            self._common(tools, "clipNorm", None),
        )
        norm = call("sqrt", operand(0)) * operand(1)
        least = call("minimum", operand(2) / (norm + _NORM_EPSILON), 1.0)
        if scale is None:
            return tools.mapped(least, squares, factor, most)
        return tools.mapped(least * operand(3), squares, factor, most, scale)

    def _limit(
        self,
        tools: Tools,
        group: ClipGroup,
        gradients: Mapping[Parameter, Value],
        scale: Value | None,
    ) -> Value:
        """Emit what the gradients of a group are multiplied by."""
        operands = [self._square_sum(tools, gradients)]
        norm = call("sqrt", operand(0))
        if not group.is_scaled:
            norm = norm * operand(1)
            operands.append(self._common(tools, "groupFactor", scale))
        least = call("minimum", group.norm / norm, 1.0)
        if scale is None:
            return tools.mapped(least, *operands)
        return tools.mapped(least * operand(len(operands)), *operands, scale)

    def _step(
        self, builder: Emitter, parameter: Parameter, gradient: Value, scale: Value | None
    ) -> list[Update]:
        pattern, optimiser = self._optimiser.group_of(parameter), self._optimiser_of(parameter)

        def number(tools: Tools, name: str, dtype: str) -> Value:
            return self._number(tools, parameter, name, dtype, scale)

        def shared(name: str, make: Shared) -> tuple[Value, ...]:
            if (pattern, name) not in self._shared:
                values, updates = make(self._tools(builder))
                self._shared[pattern, name] = values
                self._updates += updates
            return self._shared[pattern, name]

        if optimiser.added_by and gradient not in self._sums.get(parameter, ()):
            (added,) = self.accumulated(builder, parameter, [gradient])
            gradient = added.value
        if optimiser.added_by:
            gradient = self._over_replicas(builder, parameter, gradient)
        dtype = optimiser.computed_in(parameter.dtype)
        if optimiser.stochastic_rounding:
            dtype = "float32"
        seed = self._seed if optimiser.stochastic_rounding else None
        state_dtype = optimiser.state_dtype or dtype
        of_all = OfAll(optimiser.source, dtype, state_dtype, seed, number, shared)
        suffix, sharded_by = _named("", pattern), self._sharded_by(parameter)
        step = Step(builder, of_all, parameter, gradient, suffix, sharded_by)
        if optimiser.added_by:
            step.summed, step.share = self._sum_of(parameter), 1 / self._group_of(parameter).size
        return optimiser.step(step)


def _summed(tools: Tools, values: Sequence[Value]) -> Value:
    """Emit the sum of values; that of one is the value."""
    return reduce(lambda one, other: tools.emit(BINARY, [one, other], function="add"), values)
