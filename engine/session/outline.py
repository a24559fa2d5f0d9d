"""Outlining: repeated stretches of a program run the vertices of one of them.

A real compiler turns them into a function, whose code exists once: what a call reads is copied
into the function's variables, and what it computes is copied out. Here every call keeps its own
steps in the program, under the names of its own operations, while vertices, exchange code, message
buffers and temporary variables are those of the function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.channels import POPLAR
from tilescope.engine.codelets.popops.elementwise.copy import COPY, COPY_BLOCK
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import (
    OUTLINE_COPY,
    ComputeSet,
    Graph,
    Tensor,
    Variable,
    VertexBatch,
)
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import copy_together
from tilescope.engine.library.walk import joint_walk
from tilescope.engine.program import Execute, Program, Site
from tilescope.engine.program import Repeat as ProgramRepeat
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.engine.session.repeats import (
    Leaf,
    Repeat,
    Structures,
    find_repeats,
    functions_of,
    named_by,
    written_by,
)
from tilescope.tracepoints import traced

__all__ = ["outline"]

#: Outlining must save this many bytes of a tile for every call.
_LEAST_BYTES = 128  # Assumption: all products and convolutions, as PopART's outlineThreshold of 1

#: Largest share of the cycles of a call that its copies may take.
_MOST_CYCLES = 0.1  # Assumption: a tenth is bearable where code is short

#: A bound is a difference of sums: it may be rounded below a gain.
_ROUNDED_UP = 1 + 1e-9

Pairs = list[tuple[Variable, Variable]]


@traced(POPLAR, "compile.outline")
def outline(graph: Graph, root: ProgramSequence, costs: PhaseCosts) -> None:
    """Outline the repeated operations of a program, and of the functions it calls, in place.

    Functions share nothing with each other: stages of a pipeline are mostly on different IPUs.

    Parameters
    ----------
    graph
        Graph of the program; vertices and variables that nothing uses any more are removed.
    root
        The program.
    costs
        Costs compute sets for the graph's machine.

    Notes
    -----
    Stretches of compute sets are equal if their vertices, with all regions, and the tile mappings
    of their variables are, and if the variables are connected in the same way. The cost rule weighs
    the vertex state and exchange code that a call saves against the copies.
    Source: graphcore/popart, willow/include/popart/sessionoptions.hpp, outlineThreshold: all
    operations of high value, such as convolutions, become functions; a Relu alone does not.
    """
    structures = Structures(costs.exchanges.digests)
    functions = functions_of(root)
    _outline(graph, root, structures.leaves(root), costs)
    parts = [root, *(function.body for function in functions)]
    named = [named_by(part, with_functions=False) for part in parts]
    n_parts = Counter(variable for of_part in named for variable in of_part)
    shared = {variable for variable, n in n_parts.items() if n > 1}
    for body in parts[1:]:
        if isinstance(body, ProgramSequence):
            _outline(graph, body, structures.body_leaves(body, shared), costs)


def _outline(graph: Graph, root: ProgramSequence, leaves: list[Leaf], costs: PhaseCosts) -> None:
    """Outline the repeated operations of a program with such leaves, in place."""
    uses = _Uses(leaves)
    gains = _Gains(costs, uses)
    repeats = find_repeats(uses.leaves, gains.gain, gains.bound)
    outliner = _Outliner(graph, uses)
    for repeat in repeats:
        outliner.outline(repeat)
    if repeats:
        _replace_leaves(root, outliner.made)
        _drop_unused(graph, outliner)


@dataclass(frozen=True)
class _Roles:
    """The variables of a repeat by place, and those places whose variables calls copy.

    Parameters
    ----------
    variables
        Of the program.
    calls : ndarray of int64, shape (n_calls, n_places)
        Numbers of the variables of every call, in the order in which the stretch names them.
    brought
        Whether calls copy the variable in: it has contents before the call.
    kept
        Whether calls copy it out: it is used after the call.
    """

    variables: Sequence[Variable]
    calls: NDArray[np.int64]
    brought: list[bool]
    kept: list[bool]

    def of_call(self, call: int) -> tuple[Variable, ...]:
        """Return the variables of a call."""
        return tuple(self.variables[number] for number in self.calls[call].tolist())


class _Uses:
    """The leaves of a program, and the first and last leaf that names a variable."""

    def __init__(self, leaves: list[Leaf]) -> None:
        self.leaves = leaves
        self.first: dict[Variable, int] = {}
        self.last: dict[Variable, int] = {}
        numbers: dict[Variable, int] = {}
        named: list[int] = []
        is_written: list[bool] = []
        self._offset = np.zeros(len(leaves) + 1, np.int64)
        for i, leaf in enumerate(leaves):
            written = written_by(leaf)
            for variable in leaf.variables:
                is_written.append(variable in written)
                self.first.setdefault(variable, i)
                self.last[variable] = i
                named.append(numbers.setdefault(variable, len(numbers)))
            self._offset[i + 1] = len(named)
        for begin, end in _loops(leaves):
            # What is used outside a loop too is there in all of its rounds.
            for variable in {v for leaf in leaves[begin:end] for v in leaf.variables}:
                if self.first[variable] < begin or self.last[variable] > end:
                    self.first[variable] = min(self.first[variable], begin)
                    self.last[variable] = max(self.last[variable], end)
        for variable in numbers:
            if (
                variable.values is not None and variable.category != "constant"
            ):  # is kept from run to run
                self.first[variable], self.last[variable] = -1, len(leaves)
        self.variables = list(numbers)
        self._named = np.array(named, np.int64)
        self._is_written = np.array(is_written, np.bool_)
        self._first, self._last = (
            np.array([matches[v] for v in self.variables], np.int64)
            for matches in (self.first, self.last)
        )
        self._is_constant = np.array([v.category == "constant" for v in self.variables], np.bool_)

    def roles(self, repeat: Repeat) -> _Roles:
        """Return the roles of the variables of a repeat.

        A variable that all calls read and none writes is not copied: they share it.
        """
        starts = np.array(repeat.starts)
        start, end = repeat.starts[0], repeat.starts[0] + repeat.length
        slots = np.arange(self._offset[end] - self._offset[start])
        names = self._named[self._offset[starts][:, None] + slots]
        slot_of: dict[int, int] = {}
        for slot, name in enumerate(names[0].tolist()):
            slot_of.setdefault(name, slot)
        calls = names[:, list(slot_of.values())]
        written = set(names[0][self._is_written[self._offset[start] + slots]].tolist())
        is_written = np.array([number in written for number in slot_of], np.bool_)
        is_shared = ~is_written & (calls == calls[0]).all(axis=0)
        is_older = self._is_constant[calls] | (self._first[calls] < starts[:, None])
        is_used = self._last[calls] >= (starts + repeat.length)[:, None]
        brought = ~is_shared & (is_older.any(axis=0) | ~is_written)
        is_kept = is_written & is_used.any(axis=0)
        return _Roles(self.variables, calls, brought.tolist(), is_kept.tolist())


def _loops(leaves: list[Leaf]) -> list[tuple[int, int]]:
    """Return the first and the last leaf of every loop, inner loops before those around them."""
    begins: dict[int, int] = {}
    loops = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf.program, ProgramRepeat):
            begin = begins.pop(id(leaf), None)
            if begin is not None:
                loops.append((begin, i))
            elif leaf in leaves[i + 1 :]:
                begins[id(leaf)] = i
    return loops


def _whole(variable: Variable) -> Tensor:
    return Tensor(variable, 0, (((variable.n_elements, 1),),))


class _Gains:
    """Weighs what leaves take in memory and cycles against copies of their variables."""

    def __init__(self, costs: PhaseCosts, uses: _Uses) -> None:
        self.costs, self.machine, self.uses = costs, costs.machine, uses
        self._of_leaf: dict[bytes, tuple[float, float]] = {}
        self._of_variable: dict[Variable, tuple[float, float]] = {}
        #: By type, number of elements and digests of the mapping.
        self._of_mapping: dict[tuple[str, int, bytes], tuple[float, float]] = {}
        of_leaves = [self._leaf(leaf) if leaf.structure else (0.0, 0.0) for leaf in uses.leaves]
        #: Mean bytes per tile of the code of all leaves before a leaf.
        self._code = np.cumsum([0.0, *(code for code, _ in of_leaves)])

    def bound(self, repeat: Repeat) -> float:
        """Return an upper bound on the gain: the bytes saved if calls copied nothing."""
        start, n_calls = repeat.starts[0], len(repeat.starts)
        code = float(self._code[start + repeat.length] - self._code[start])
        saved = (n_calls - 1) * code * _ROUNDED_UP
        return 0 if saved < n_calls * _LEAST_BYTES else saved

    def gain(self, repeat: Repeat) -> float:
        """Return the bytes that outlining saves on a tile, in the mean; 0 where it does not pay."""
        start, n_calls = repeat.starts[0], len(repeat.starts)
        call = self.uses.leaves[start : start + repeat.length]
        code, cycles = (sum(column) for column in zip(*map(self._leaf, call), strict=True))
        if (n_calls - 1) * code < n_calls * _LEAST_BYTES:
            return 0
        roles = self.uses.roles(repeat)
        state = copy_cycles = 0.0
        first = roles.of_call(0)
        for variable, brought, is_kept in zip(first, roles.brought, roles.kept, strict=True):
            if brought or is_kept:
                of_copy = self._variable(variable)
                state += (brought + is_kept) * of_copy[0]
                copy_cycles += (brought + is_kept) * of_copy[1]
        steps = any(roles.brought) + any(roles.kept)
        state += steps * self.machine.control_code_bytes_per_step
        saved = (n_calls - 1) * code - n_calls * state
        if saved < n_calls * _LEAST_BYTES or copy_cycles > _MOST_CYCLES * cycles:
            return 0
        return float(saved)

    def _leaf(self, leaf: Leaf) -> tuple[float, float]:
        """Return the mean bytes per tile of a leaf's code, and its cycles."""
        if leaf.structure not in self._of_leaf:
            compute_set = leaf.compute_set
            around = self.costs.around(compute_set)
            n_bytes = sum(batch.state_bytes for batch in compute_set.batches)
            cycles = self.costs.compute(compute_set)[0].cycles.max()
            for transfer in (around.before, around.after):
                if transfer is not None:
                    n_bytes += int(transfer.code_bytes.sum())
                    cycles += transfer.cost.cycles.max()
            self._of_leaf[leaf.structure] = n_bytes / self.machine.n_tiles, float(cycles)
        return self._of_leaf[leaf.structure]

    def _variable(self, variable: Variable) -> tuple[float, float]:
        """Return the mean state of the vertices that copy a variable, and their cycles."""
        if variable not in self._of_variable:
            digest = self.costs.exchanges.digests.of
            mapping = digest(variable.map_start) + digest(variable.map_tile)
            key = variable.dtype.name, variable.n_elements, mapping
            if key not in self._of_mapping:
                self._of_mapping[key] = self._copy(variable)
            self._of_variable[variable] = self._of_mapping[key]
        return self._of_variable[variable]

    def _copy(self, variable: Variable) -> tuple[float, float]:
        walk = joint_walk([_whole(variable)], _whole(variable))
        assert walk is not None, "a variable is compatible with itself"
        state = 0
        for is_block, tiles, _ in walk.batches():
            state += tiles.size * (COPY_BLOCK if is_block else COPY).state_bytes
        lengths = (variable.map_end - variable.map_start) * variable.dtype.n_bytes
        largest = float(np.bincount(variable.map_tile, lengths).max())
        return state / self.machine.n_tiles, largest / self.machine.data_path_bytes


class _Outliner:
    """Rewrites the stretches of repeats as calls of functions.

    Attributes
    ----------
    made
        Programs in place of leaves, by the id of the leaf's program.
    variables, compute_sets
        What the functions replace.
    """

    def __init__(self, graph: Graph, uses: _Uses) -> None:
        self.graph, self.uses = graph, uses
        self.made: dict[int, list[Program]] = {}
        self.variables: set[Variable] = set()
        self.compute_sets: set[ComputeSet] = set()

    def outline(self, repeat: Repeat) -> None:
        """Replace the stretches of a repeat."""
        roles = self.uses.roles(repeat)
        copied = [b or k for b, k in zip(roles.brought, roles.kept, strict=True)]
        first = roles.of_call(0)
        outlined = tuple(
            self._cloned(variable) if is_copied else variable
            for variable, is_copied in zip(first, copied, strict=True)
        )
        function = self.uses.leaves[repeat.starts[0] : repeat.starts[0] + repeat.length]
        of = dict(zip(first, outlined, strict=True))
        # Before its vertices move to the function's variables: what a site says stays.
        for call, start in enumerate(repeat.starts):
            pairs = list(zip(roles.of_call(call), outlined, strict=True))
            self._call(start, function, pairs, roles)
        for leaf in function:
            compute_set = leaf.compute_set
            compute_set.batches = [_on(batch, of) for batch in compute_set.batches]

    def _call(self, start: int, function: Sequence[Leaf], pairs: Pairs, roles: _Roles) -> None:
        """Make the programs of a call: copies in, the function's vertices, copies out."""
        end = start + len(function)
        call = self.uses.leaves[start:end]
        for leaf, of_function in zip(call, function, strict=True):
            compute_set = leaf.compute_set
            site = Site(compute_set.name, compute_set.debug, compute_set.plan_stage)
            execute = Execute(of_function.compute_set, site, debug=leaf.program.debug)
            self.made[id(leaf.program)] = [execute]
            if leaf is not of_function:
                self.compute_sets.add(compute_set)
        expansion = [pair for pair, brought in zip(pairs, roles.brought, strict=True) if brought]
        out_of = [
            (inside, outside)
            for (outside, inside), is_kept in zip(pairs, roles.kept, strict=True)
            if is_kept and self.uses.last[outside] >= end
        ]
        if expansion:
            self.made[id(call[0].program)].insert(0, self._copies(call[0], expansion, "outlineIn"))
        if out_of:
            self.made[id(call[-1].program)].append(self._copies(call[-1], out_of, "outlineOut"))
        for outside, inside in pairs:
            is_inner = self.uses.first[outside] >= start and self.uses.last[outside] < end
            if outside is not inside and is_inner and outside.category != "constant":
                self.variables.add(outside)

    def _cloned(self, variable: Variable) -> Variable:
        tensor = self.graph.add_variable(variable.dtype, variable.shape, "", variable.debug)
        tensor.variable.name = f"{variable.name}/outlined"
        tensor.variable.map_like(variable)
        return tensor.variable

    def _copies(self, leaf: Leaf, pairs: Pairs, name: str) -> Program:
        """Return a program at the place of a leaf that copies whole variables at once."""
        builder = Builder(self.graph, ProgramSequence(), leaf.program.debug)
        inside = builder.inside(name, OUTLINE_COPY, flops=0)
        copy_together(inside, [(_whole(of), _whole(to)) for of, to in pairs], "copy")
        return inside.sequence


def _on(batch: VertexBatch, of: dict[Variable, Variable]) -> VertexBatch:
    """Return vertices on other variables."""
    fields = {name: r.on(of.get(r.variable, r.variable)) for name, r in batch.fields.items()}
    return replace(batch, fields=fields)


def _replace_leaves(program: ProgramSequence, replacements: dict[int, list[Program]]) -> None:
    """Put other programs in place of leaves, in place."""
    program.children[:] = [
        replacement
        for child in program.children
        for replacement in replacements.get(id(child), [child])
    ]
    for child in program.children:
        inner = child.body if isinstance(child, ProgramRepeat) else child
        if isinstance(inner, ProgramSequence):
            _replace_leaves(inner, replacements)


def _drop_unused(graph: Graph, outliner: _Outliner) -> None:
    """Remove the compute sets and variables that functions replace."""
    graph.compute_sets[:] = [c for c in graph.compute_sets if c not in outliner.compute_sets]
    for number, compute_set in enumerate(graph.compute_sets):
        compute_set.compute_set_id = number
    graph.variables[:] = [v for v in graph.variables if v not in outliner.variables]
    for number, variable in enumerate(graph.variables):
        variable.variable_id = number
