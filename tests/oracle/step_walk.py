"""A run step by step in Python: every launch by itself, the clock after every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine import Engine
from tilescope.engine.compiler.cycles.cycles import CountedCycles
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.execute.timeline import Clock, Timeline

__all__ = ["walk"]


def walk(engine: Engine, program: int = 0) -> Sequence[Timeline]:
    """Run a program on the memory of an engine; return the times at which its steps ran."""
    engine.load()
    steps = _Walk(engine)
    steps.run(engine.executable.roots[program])
    return steps.clock.timelines()


class _Walk:
    def __init__(self, engine: Engine) -> None:
        (replica,) = engine._replicas
        self.plan, self.memory = replica.plan, replica.memory
        self.machine = engine.executable.machine
        self.clock = Clock(self.machine)
        self.counters = engine._counters
        self.stream = replica._copy

    def run(self, node: Node) -> None:
        if node.is_foldable:
            self.launch(node)
            self.clock.run(node)
        elif node.step is not None:
            self.step(node.step)
        elif node.kind == "Overlap":
            self.clock.overlap(node, self.all)
        elif node.function is not None:
            self.run(node.function)
        elif node.control is not None:
            self.decide(node)
        else:
            for _ in range(node.repeat_count):
                self.all(node.children)

    def all(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.run(node)

    def time(self, nodes: Sequence[Node]) -> None:
        """Advance the clock past nodes without decisions."""
        for node in nodes:
            self.clock.run(node)

    def launch(self, node: Node) -> None:
        """Run a node without its time."""
        for _ in range(node.repeat_count):
            if node.step is not None:
                for launch in self.plan.launches(node.step):
                    launch.run()
                if node.step.access is not None:
                    self.stream(node.step)
            if node.function is not None:
                self.launch(node.function)
            for child in node.children:
                self.launch(child)

    def step(self, step: Step) -> None:
        launches = self.plan.launches(step)
        for launch in launches:
            if launch.clock.size:
                ipus = launch.tile // self.machine.tiles_per_ipu
                launch.clock[:] = (self.counters + np.array(self.clock.counters))[ipus]
            launch.run()
        tile_cycles: NDArray[np.int64] | None = None
        if step.is_data_dependent and step.compute_set is not None:
            counts = [launch.counts for launch in launches]
            counted = CountedCycles(step.compute_set, self.machine, counts, step.slow_tiles)
            tile_cycles = counted.tile_cycles()
        self.clock.step(step, tile_cycles)

    def decide(self, node: Node) -> None:
        assert node.control is not None
        (piece,) = node.control.pieces
        if node.kind == "RepeatWhile":
            self.loop(node)
            return
        number = int(self.memory.read(piece).reshape(-1)[0])
        if node.kind == "If":
            self.run(node.children[0 if number else 1])
        else:
            is_case = number in node.cases
            self.run(node.children[node.cases.index(number) if is_case else -1])

    def loop(self, node: Node) -> None:
        assert node.control is not None
        condition, body = node.children
        is_even = condition.is_foldable and body.is_foldable
        run = self.launch if is_even else self.run
        n_rounds = 0
        run(condition)
        while bool(self.memory.read(node.control).reshape(-1)[0]) == node.while_true:
            run(body)
            run(condition)
            n_rounds += 1
        if is_even:
            self.clock.run(condition)
            if n_rounds:
                self.clock.run_rounds(lambda: self.time([body, condition]), n_rounds)
