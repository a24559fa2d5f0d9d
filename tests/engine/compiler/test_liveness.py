"""Live ranges: those of a table of all steps and variables, without filling one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.naive_liveness import NaiveLiveness, ranges_of

from tilescope.engine.compiler.memory.liveness import live_ranges

N_VARIABLES = 5


class Programs:
    """Draws program trees; steps are numbered as by the compiler, functions at their first call."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.steps: list[Any] = []
        self.functions: list[Any] = []

    def some(self, most: int = N_VARIABLES) -> tuple[int, ...]:
        numbers = st.sets(st.integers(0, N_VARIABLES - 1), max_size=most)
        return tuple(sorted(self.draw(numbers)))

    def node(self, kind: str, children: Any = (), **values: Any) -> Any:
        usual = {"step": None, "function": None, "repeat_count": 1, "control": None}
        return SimpleNamespace(kind=kind, children=children, **{**usual, **values})

    def step(self) -> Any:
        kind = self.draw(st.sampled_from(["OnTileExecute", "OnTileExecute", "WriteUndef"]))
        writes = self.some(2)
        overwrites = tuple(v for v in writes if self.draw(st.booleans()))
        reads = () if kind == "WriteUndef" else self.some(2)
        step = SimpleNamespace(
            step_id=len(self.steps), kind=kind, writes=writes, overwrites=overwrites, reads=reads
        )
        self.steps.append(step)
        return self.node(kind, step=step)

    def sequence(self, depth: int, **values: Any) -> Any:
        kind = values.pop("kind", "Sequence")
        children = [self.tree(depth - 1) for _ in range(self.draw(st.integers(0, 4)))]
        return self.node(kind, children, **values)

    def tree(self, depth: int) -> Any:
        kinds = [
            "step",
            "Repeat",
            "If",
            "RepeatWhile",
            "Call",
            "Overlap",
            "Sequence",
            "PrintTensor",
        ]
        kind = self.draw(st.sampled_from(kinds)) if depth > 0 else "step"
        if kind == "step":
            return self.step()
        if kind in ("If", "RepeatWhile"):
            return self.node(kind, [self.sequence(depth - 1) for _ in range(2)])
        if kind == "Call":
            if not self.functions or self.draw(st.booleans()):
                self.functions.append(self.sequence(depth - 1))
            return self.node("Call", function=self.functions[-1])
        if kind == "Overlap":
            sides = (
                self.node("Sequence", [self.step() for _ in range(self.draw(st.integers(1, 3)))])
                for _ in range(2)
            )
            return self.node("Overlap", [*sides])
        if kind == "PrintTensor":
            item = SimpleNamespace(variable_id=self.draw(st.integers(0, N_VARIABLES - 1)))
            return self.node(kind, control=SimpleNamespace(variables=(item,)))
        count = 2 if kind == "Repeat" else 1
        return self.sequence(depth - 1, kind=kind, repeat_count=count)


def variables(n: int) -> Any:
    return SimpleNamespace(variables=[SimpleNamespace(category="variable") for _ in range(n)])


@given(st.data())
def test_live_ranges_are_those_of_the_table(data: st.DataObject) -> None:
    drawn = Programs(data.draw)
    roots = [drawn.sequence(3) for _ in range(data.draw(st.integers(1, 2)))]
    actual = live_ranges(variables(N_VARIABLES), roots)
    naive = NaiveLiveness(len(drawn.steps), N_VARIABLES)
    always = {v for root in roots for v in naive.before(root, set())}
    assert set(np.flatnonzero(actual.is_always_live).tolist()) == always
    expected = {v: ranges_of(naive.table[:, v]) for v in range(N_VARIABLES) if v not in always}
    assert actual.ranges == {v: ranges for v, ranges in expected.items() if ranges}


class Counted(tuple[int, ...]):
    """Variables of a step; counts how many of them are looked at."""

    n_looked_at = 0

    def __iter__(self) -> Any:
        Counted.n_looked_at += len(self)
        return super().__iter__()


def test_a_step_costs_what_it_touches_however_many_variables_live() -> None:
    """Half the variables live until the end of the chain; a step touches two of them."""
    counts = []
    for n in (100, 1_000):
        names = Programs(None)
        for i in range(n):
            step = SimpleNamespace(
                step_id=i, kind="OnTileExecute", reads=Counted((i,)), writes=Counted((i + 1,)),
                overwrites=Counted((i + 1,)),
            )  # fmt: skip
            names.steps.append(step)
        last = SimpleNamespace(
            step_id=n,
            kind="OnTileExecute",
            reads=tuple(range(0, n + 1, 2)),
            writes=(),
            overwrites=(),
        )
        names.steps.append(last)
        Counted.n_looked_at = 0
        root = names.node("Sequence", [names.node("OnTileExecute", step=s) for s in names.steps])
        actual = live_ranges(variables(n + 1), [root])
        assert sum(len(ranges) for ranges in actual.ranges.values()) == n
        counts.append(Counted.n_looked_at)
    assert counts[1] <= 11 * counts[0]
