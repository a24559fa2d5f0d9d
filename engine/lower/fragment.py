"""What the lowering of an operation adds to a graph and its program, to be added again.

A fragment refers to the variables of the operation's operands, which belong to others, and to its
debug context; all else is its own.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import ComputeSet, DebugContext, Tensor, Variable
from tilescope.engine.graph.freeze import read_only
from tilescope.engine.graph.identity.arrangement import Arrangement, Step, rearranged
from tilescope.engine.graph.identity.digest import digest_of
from tilescope.engine.graph.variable import to_host
from tilescope.engine.ir import Operation
from tilescope.engine.library.builder import Builder
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Program

__all__ = ["Beginning", "Fragment", "Unrepeatable"]

#: Largest constants that a fragment holds itself, bytes: what is larger follows from weights.
_MOST_BYTES = 1 << 16

Mapping = tuple[NDArray[np.int64], NDArray[np.int32]]


class Unrepeatable(Exception):
    """An operation did something that a fragment does not hold."""


@dataclass(frozen=True)
class Fragment:
    """What an operation added.

    Parameters
    ----------
    variables, compute_sets
        In the order in which they were added; their ids are given anew.
    mappings
        By the index of an operand's variable that the operation mapped: starts and tiles of its
        intervals.
    programs
        What it added to its sequence.
    plans
        Its plans, numbered from `first_plan`, as those of its compute sets are.
    n_plans
        Plan ids that it took.
    next_start
        Where the next small constant begins; see `TileSet`.
    results
        Views, one per result.
    digested
        Debug contexts with the digest of an operand, whose number and arrangement are given.
    """

    variables: tuple[Variable, ...]
    compute_sets: tuple[ComputeSet, ...]
    mappings: dict[int, Mapping]
    programs: tuple[Program, ...]
    plans: tuple[Plan, ...]
    first_plan: int
    n_plans: int
    next_start: int
    results: tuple[Tensor, ...]
    digested: tuple[tuple[DebugContext, Arrangement], ...]

    @property
    def laid_out(self) -> set[int]:
        """Numbers of the operands that constants hold."""
        held = (variable.arrangement for variable in self.variables)
        return {cast(int, arrangement[0]) for arrangement in held if arrangement is not None}

    def add_to(
        self, builder: Builder, operation: Operation, operands: Items[Variable]
    ) -> tuple[Tensor, ...]:
        """Add it to a graph, to which it does not belong yet; return the results.

        Parameters
        ----------
        builder
            Its graph, and the sequence of the operation.
        operation
            The operation, of whose weights constants are made.
        operands
            The variables of its operands.
        """
        graph = builder.graph
        for context, arrangement in self.digested:
            # Its own, as yet: nobody else has a fragment that was just read.
            digest = _digest(operation, *arrangement)
            object.__setattr__(context, "weights_digest", digest)
        for variable in self.variables:
            if variable.arrangement is not None:
                variable.values = _values(variable, operation)
            variable.variable_id = len(graph.variables)
            graph.variables.append(variable)
        for index, (start, tile) in self.mappings.items():
            operands[index].set_mapping(start, tile)
        shift = graph.n_plans - self.first_plan
        for compute_set in self.compute_sets:
            compute_set.compute_set_id = len(graph.compute_sets)
            graph.compute_sets.append(compute_set)
            stage = compute_set.plan_stage
            if stage is not None and shift:
                compute_set.plan_stage = replace(stage, plan_id=stage.plan_id + shift)
            for batch in compute_set.batches:
                graph.codelets.setdefault(batch.codelet.name, batch.codelet)
        for plan in self.plans:
            number = plan.plan_id
            builder.plans.append(plan if number is None else replace(plan, plan_id=number + shift))
        graph.n_plans += self.n_plans
        builder.tiles.next_start = self.next_start
        builder.sequence.add(*self.programs)
        return self.results


def _values(variable: Variable, operation: Operation) -> NDArray[Any]:
    """Return the content of a constant that holds a weight of an operation."""
    assert variable.arrangement is not None
    number, steps = variable.arrangement
    stated = np.asarray(operation.operands[cast(int, number)].content)
    array = rearranged(stated, steps)
    is_view = np.may_share_memory(stated, array)
    return to_host(array, variable.dtype, variable.name, copy=is_view).reshape(-1)


def _digest(operation: Operation, number: object, steps: tuple[Step, ...]) -> str:
    """Return the digest of a weight of an operation in an arrangement."""
    weight = operation.operands[cast(int, number)]
    return digest_of([rearranged(np.asarray(weight.content), steps)]) if steps else weight.digest


class Beginning:
    """The state of a graph before an operation is lowered.

    Parameters
    ----------
    builder
        Where the operation is lowered to.
    operands
        The variables of its operands.
    """

    def __init__(self, builder: Builder, operands: Items[Variable]) -> None:
        graph = builder.graph
        self._builder, self._operands = builder, operands
        self._n_variables, self._n_sets = len(graph.variables), len(graph.compute_sets)
        self._n_plans, self._n_chosen = graph.n_plans, len(builder.plans)
        self._n_buffers, self._n_digested = len(graph.remote_buffers), len(builder.digests.contexts)
        self._children = list(builder.sequence.children)
        self._states = [_state(variable) for variable in operands]

    def fragment(self, operation: Operation, results: Items[Tensor]) -> Fragment:
        """Return what was added since.

        Raises
        ------
        Unrepeatable
            When something else than a fragment holds was added, or changed.
        """
        builder, graph = self._builder, self._builder.graph
        children = builder.sequence.children
        n_before = len(self._children)
        if len(graph.remote_buffers) > self._n_buffers or any(
            now is not before for now, before in zip(children, self._children, strict=False)
        ):
            raise Unrepeatable("it changed what was there before")
        variables = tuple(graph.variables[self._n_variables :])
        compute_sets = tuple(graph.compute_sets[self._n_sets :])
        _number_weights(operation, variables)
        digested = builder.digests.contexts[self._n_digested :]
        mappings: dict[int, Mapping] = {}
        for index, (variable, state) in enumerate(zip(self._operands, self._states, strict=True)):
            is_same = [now is before for now, before in zip(_state(variable), state, strict=True)]
            if all(is_same):
                continue
            if not all(is_same[_N_MAPPING:]) or not variable.is_mapped:
                raise Unrepeatable(f"it changed {variable.name!r}")
            mappings[index] = read_only(variable.map_start), read_only(variable.map_tile)
        return Fragment(
            variables,
            compute_sets,
            mappings,
            tuple(children[n_before:]),
            tuple(builder.plans[self._n_chosen :]),
            self._n_plans,
            graph.n_plans - self._n_plans,
            builder.tiles.next_start,
            tuple(results),
            tuple(
                (context, arrangement)
                for context, of in digested
                if (arrangement := _numbered(operation, of)) is not None
            ),
        )


#: Parts of a variable's state that are its mapping, the first ones.
_N_MAPPING = 3


def _state(variable: Variable) -> tuple[object, ...]:
    """Return what an operation may change of a variable, its mapping, and what it must not."""
    return (
        variable.map_start,
        variable.map_tile,
        variable.partial_mapping,
        variable.allocated_for,
        variable.values,
        variable.name,
        variable.category,
    )


def _number_weights(operation: Operation, variables: Items[Variable]) -> None:
    """Say which operands constants hold; refuse other large ones, which nothing follows from.

    Raises
    ------
    Unrepeatable
        When there are any.
    """
    n_bytes = 0
    for variable in variables:
        variable.arrangement = _numbered(operation, variable.arrangement)
        if variable.arrangement is None and variable.values is not None:
            n_bytes += variable.values.nbytes
    if n_bytes > _MOST_BYTES:
        raise Unrepeatable(f"it computed {n_bytes:,} bytes of constants")


def _numbered(operation: Operation, arrangement: Arrangement | None) -> Arrangement | None:
    """Return an arrangement of an operand with the operand's number instead of itself.

    None for a constant that the lowering made: what it holds follows from the rest of the key.
    """
    if arrangement is None or arrangement[0] not in operation.operands:
        return None
    return operation.operands.index(arrangement[0]), arrangement[1]
