"""What a session asks of a model before it compiles it, whatever front end it is from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from numpy.typing import ArrayLike

from tilescope.engine.ir import Locations, Model
from tilescope.engine.ir.half_policy import THROUGHOUT, HalfPolicy
from tilescope.engine.ir.model import PRECISIONS

__all__ = ["Setup", "SourceModel"]


@dataclass(frozen=True)
class Setup:
    """What is stated of a model besides its source: open sizes, precision, data.

    Parameters
    ----------
    shapes
        Shapes of inputs, by name.
    batch
        Size of the first dimension of inputs that leave it open; 1 if None.
    values
        Contents of inputs that shapes depend on, by name.
    precision
        ``half`` computes in half what the model computes in float; see `in_half`.
    synthetic
        Data that take the place of the inputs, on the device; None takes those of the host. See
        `with_synthetic_data`.
    dims
        Sizes of symbolic dimensions, by the name that the model has for them.
    trained, frozen
        Names of the weights that training updates, as patterns of the shell, and those that it
        leaves as they are all the same.
    has_masters
        Whether trained weights stay in float where the precision is half.
    policy
        Which operators compute in half where the precision is half.
    split
        IPU by name of a node, or by a pattern of names; see `tilescope.engine.transform.split`.
    pipeline
        Stages of a pipeline, likewise; empty where stages do not run at a time.
    n_rounds
        Micro-batches of a run of a pipeline; training states its own.
    batch_parts
        Equal parts of the batch that are computed one after another.
    locations
        Where values are kept.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: int | None = None
    values: Mapping[str, ArrayLike] = field(default_factory=dict)
    precision: str = PRECISIONS[0]
    synthetic: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    trained: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    has_masters: bool = False
    policy: HalfPolicy = THROUGHOUT
    split: Mapping[str, int] = field(default_factory=dict)
    pipeline: Mapping[str, int] = field(default_factory=dict)
    n_rounds: int = 1
    batch_parts: int = 1
    locations: Locations = field(default_factory=Locations)

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of precision, IPUs, locations; nothing of a plain model.

        Entries of a policy, the split and the stages are in JSON.
        """
        places = {"split": self.split, "pipeline": self.pipeline}
        facts = {name: json.dumps(dict(of)) for name, of in places.items() if of}
        if self.n_rounds > 1:
            facts["micro_batches"] = str(self.n_rounds)
        if self.batch_parts > 1:
            facts["batch_parts"] = str(self.batch_parts)
        return facts | self.locations.facts | self._precision_facts

    @property
    def _precision_facts(self) -> dict[str, str]:
        if self.precision == PRECISIONS[0]:
            return {}
        facts = {"precision": self.precision, "half_policy": self.policy.name}
        changes = self.policy.changes.items()
        return facts | {key: json.dumps(list(entries)) for key, entries in changes if entries}


class SourceModel(Protocol):
    """A model as its author has it; every front end has a class of its own."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def place(self) -> str:
        """Where it is, as sentences name it: the path of a file, for example."""

    @property
    def outside(self) -> tuple[str, ...]:
        """Names of what else it is made of, such as files of weights; they are found by reading it.

        Raises
        ------
        BadModel
            When the model cannot be read.
        """

    def digest(self, outside: Sequence[str]) -> str:
        """Return a digest of all bytes that it consists of, which does not read it as a model.

        Parameters
        ----------
        outside
            Names of what else it is made of.

        Raises
        ------
        BadModel
            When it, or what else it is made of, cannot be read.
        """

    def stored_bytes(self) -> int:
        """Return how many bytes its weights take at most, without reading it."""

    def weight_bytes(self, setup: Setup) -> int:
        """Return how many bytes of weights its operations use, without reading these.

        Raises
        ------
        BadModel, BadInput, UnsupportedOperators
            When the model cannot be used.
        """

    def load(self, setup: Setup) -> Model:
        """Return its operator graph with static shapes, in its own precision.

        Raises
        ------
        BadModel, BadInput, UnsupportedOperators
            When the model cannot be used.
        """

    def facts(self, model: Model, digest: str = "") -> dict[str, str]:
        """Return facts of its provenance for a report, by their keys.

        Parameters
        ----------
        model
            What `load` returned, or the interface of that.
        digest
            Digest of all that it consists of, where it is known.
        """
