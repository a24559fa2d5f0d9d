"""Programs of one operator or a few, as tests of operators build and run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import popart

__all__ = ["Program", "infer", "train"]

Array = NDArray[Any]


@dataclass
class Program:
    """A builder, and the data of its inputs by name."""

    builder: popart.Builder
    data: dict[str, Array] = field(default_factory=dict)

    def input(self, array: Array) -> str:
        """Return an input that is fed with an array."""
        name: str = self.builder.addInputTensor(popart.TensorInfo(array))
        self.data[name] = array
        return name

    def weight(self, array: Array) -> str:
        """Return a weight."""
        name: str = self.builder.addInitializedInputTensor(array)
        return name


Build = Callable[[Program], Sequence[str]]


def _ran(program: Program, session: Any, n_steps: int = 1) -> list[dict[str, Array]]:
    session.prepareDevice()
    session.weightsFromHost()
    steps = []
    for _ in range(n_steps):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(program.data, anchors))
        steps.append(anchors)
    return steps


def infer(build: Build, opsets: Mapping[str, int] | None = None) -> list[Array]:
    """Return the anchors that a program returns, in its order."""
    program = Program(popart.Builder(opsets=dict(opsets)) if opsets else popart.Builder())
    names = list(build(program))
    session = popart.InferenceSession(
        program.builder.getModelProto(), popart.DataFlow(1, names), _device()
    )
    (anchors,) = _ran(program, session)
    return [np.array(anchors[name]) for name in names]


def train(
    build: Build,
    gradients: Sequence[int] = (),
    *,
    optimizer: popart.Optimizer | None = None,
    n_steps: int = 1,
) -> list[list[Array]]:
    """Return anchors, then gradients of those at some places, of every step.

    The first tensor that the program returns is minimised: the sum of it.
    """
    program = Program(popart.Builder())
    names = list(build(program))
    loss = program.builder.aiGraphcore.identityloss([names[0]], popart.ReductionType.Sum)
    of_gradients = [popart.reservedGradientPrefix() + names[place] for place in gradients]
    session = popart.TrainingSession(
        program.builder.getModelProto(),
        popart.DataFlow(1, [*names, *of_gradients]),
        loss,
        optimizer or popart.ConstSGD(0.1),
        _device(),
    )
    steps = _ran(program, session, n_steps)
    return [[np.array(anchors[name]) for name in (*names, *of_gradients)] for anchors in steps]


def _device() -> popart.DeviceInfo:
    return popart.DeviceManager().createCpuDevice()
