"""What training a model means: a loss, an optimiser, and the micro-batches of a step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from tilescope.engine.errors import BadOption
from tilescope.engine.ir.location import Locations
from tilescope.engine.ir.operation import Emitter
from tilescope.engine.ir.value import Parameter, Update, Value

__all__ = ["RECOMPUTATIONS", "Optimiser", "Recomputation", "Training", "Updater"]


class Updater(Protocol):
    """Emits what an optimiser does in a model."""

    def scaling(self, builder: Emitter, dtype: str) -> Value | None:
        """Return what the gradient of the loss starts as, a scalar; None where it is constant."""

    def accumulated(
        self, builder: Emitter, parameter: Parameter, gradients: Sequence[Value]
    ) -> list[Update]:
        """Emit the addition of a micro-batch's gradients to the sums of a parameter's gradients.

        Parameters
        ----------
        builder
            Takes the operations.
        parameter
            The parameter.
        gradients
            One, or one of every stage of a pipeline that reads the parameter.
        """

    def updates(self, builder: Emitter, gradients: Mapping[Parameter, Value]) -> list[Update]:
        """Emit what changes the parameters, and the states of the optimiser.

        Parameters
        ----------
        builder
            Takes the operations.
        gradients
            By parameter.
        """

    def closing(self, builder: Emitter) -> list[Update]:
        """Emit `updates` from the sums, which begin again."""


class Optimiser(Protocol):
    """Decides how gradients change parameters."""

    @property
    def loss_scaling(self) -> float:
        """What the gradient of the loss starts as; gradients are that many times too large."""

    @property
    def rate(self) -> float:
        """The learning rate, as reports show it."""

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of it, by key: ``optimizer`` at least."""

    @property
    def structure(self) -> str:
        """What its program depends on: others of the same structure can take its place."""

    def settings(self, factor: float) -> Mapping[str, float]:
        """Return the numbers that the host may change, by name, for such a factor."""

    def updater(
        self, factor: float, n_replicas: int = 1, locations: Locations | None = None
    ) -> Updater:
        """Return what emits the updates of a model.

        Parameters
        ----------
        factor
            What sums of gradients are multiplied by: it undoes the loss scaling, and may make them
            means.
        n_replicas
            Replicas whose gradients are summed.
        locations
            Where values are kept; all whole on the tiles by default.
        """


#: What of the forward pass is computed again for the backward pass, by kind.
RECOMPUTATIONS = {
    "none": "nothing",
    "standard": "all but what is alive at a few places, where that is least",
    "norm": "normalisations, and the non-linearities that follow them",
    "all": "everything",
    "pipeline": "all of every stage of a pipeline but the last, from what reaches the stage",
}


@dataclass(frozen=True)
class Recomputation:
    """What of the forward pass is computed again for the backward pass, so that it need not stay.

    Parameters
    ----------
    kind
        One of `RECOMPUTATIONS`.
    again, kept
        Patterns of names of the model's nodes whose results are computed again besides, and of
        those whose results stay all the same. An Identity that is kept is a checkpoint: its result
        stays, and its operand is computed again.

    Raises
    ------
    BadOption
        When the kind does not exist.
    """

    kind: str = "none"
    again: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the kind."""
        if self.kind not in RECOMPUTATIONS:
            allowed = ", ".join(RECOMPUTATIONS)
            raise BadOption(f"There is no recomputation {self.kind!r}: choose {allowed}")

    def repeats(self, name: str) -> bool:
        """Return whether a node is named as one that is computed again."""
        return any(fnmatchcase(name, pattern) for pattern in self.again)

    def keeps(self, name: str) -> bool:
        """Return whether a node is named as one whose results stay."""
        return any(fnmatchcase(name, pattern) for pattern in self.kept)


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    Parameters
    ----------
    loss
        Name of the output that is minimised: a scalar.
    optimiser
        How gradients change parameters.
    n_rounds
        Micro-batches of a step; their gradients are summed, or averaged where `is_averaged`.
    is_averaged
        Whether the step follows the mean of the losses of micro-batches and replicas instead of
        their sum.
    anchors
        Names of values whose gradients, of each micro-batch, become outputs: ``Gradient___`` and
        the name.
    recomputation
        What of the forward pass is computed again.
    objective
        What is minimised, by key, as a report's provenance has it.
    counts_overflows
        Whether the number of values beyond half, by pass and micro-batch, becomes outputs.
    n_replicas
        Replicas that train on data of their own; their gradients are summed, or averaged.
    """

    loss: str
    optimiser: Optimiser
    n_rounds: int = 1
    is_averaged: bool = True
    anchors: tuple[str, ...] = ()
    recomputation: Recomputation = field(default_factory=Recomputation)
    objective: Mapping[str, str] = field(default_factory=dict)
    counts_overflows: bool = False
    n_replicas: int = 1

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of it, by key; lists of patterns are in JSON."""
        facts = {
            **self.objective,
            **self.optimiser.facts,
            "micro_batches": str(self.n_rounds),
            "recomputation": self.recomputation.kind,
        }
        patterns = {
            "recomputed_nodes": self.recomputation.again,
            "kept_nodes": self.recomputation.kept,
        }
        if self.counts_overflows:
            facts["counts_overflows"] = "true"
        if self.n_replicas > 1:
            facts["replicas"] = str(self.n_replicas)
        return facts | {key: json.dumps(list(names)) for key, names in patterns.items() if names}

    @property
    def factor(self) -> float:
        """What sums of gradients are multiplied by: loss scaling and means are in it."""
        scaling = self.optimiser.loss_scaling
        n_parts = self.n_rounds * self.n_replicas
        return 1 / (scaling * n_parts if self.is_averaged else scaling)
