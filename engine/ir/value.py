"""Values: what flows between operations. Shapes are static."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.identity.digest import digest_of
from tilescope.engine.ir.replica_group import ReplicaGroup

__all__ = [
    "MOST_DIMS",
    "Constant",
    "NarrowConstant",
    "Parameter",
    "Purpose",
    "State",
    "Update",
    "Value",
    "looked_at",
]

#: Dimensions that a value may have: half of what numpy takes, so that any can be split in two.
MOST_DIMS = 32


class Purpose(StrEnum):
    """What a model needs a value for."""

    #: Weights, and what else the model keeps from run to run, such as running statistics.
    WEIGHT = "weight"
    OPTIMISER_STATE = "optimiser state"
    #: Gradients, and their sums over micro-batches.
    GRADIENT = "gradient"
    #: Inputs, and what the forward pass computes from them.
    ACTIVATION = "activation"
    #: What stages of a pipeline keep for later ones, of several micro-batches.
    STASH = "stash"


#: Values whose content was asked for, while somebody notes them.
_looks: ContextVar[set[Value] | None] = ContextVar("looks", default=None)


@contextmanager
def looked_at() -> Iterator[set[Value]]:
    """Note the values whose content is asked for meanwhile, in the set that is returned."""
    values: set[Value] = set()
    token = _looks.set(values)
    try:
        yield values
    finally:
        _looks.reset(token)


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an operation, or an input of the model or of a region.

    Parameters
    ----------
    dtype
        numpy name of its type, as the model states it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def known(self) -> NDArray[Any] | None:
        """The content where the compiler may rely on it; None where only a run decides it.

        That of a value without elements is known.
        """
        looks = _looks.get()
        if looks is not None:
            looks.add(self)
        return self.content

    @property
    def content(self) -> NDArray[Any] | None:
        """What `known` returns, for those who decide nothing by it: it is not noted."""
        return None if prod(self.shape) else np.empty(self.shape, self.dtype)

    @property
    def is_known(self) -> bool:
        """Whether the compiler may rely on the content."""
        return self.content is not None

    @cached_property
    def digest(self) -> str:
        """The digest of the content that `known` returns, computed once; "" without any."""
        content = self.content
        return "" if content is None else digest_of([np.asarray(content)])

    @property
    def is_computed(self) -> bool:
        """Whether an operation computes the value or the host provides it."""
        return type(self) is Value and prod(self.shape) > 0

    @property
    def is_held(self) -> bool:
        """Whether the device keeps the value from run to run, in a variable of its own."""
        return False


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """A value that never changes: stated by the model, or folded from such values.

    Parameters
    ----------
    array
        Its content.
    """

    array: NDArray[Any]

    @property
    def content(self) -> NDArray[Any]:
        """The content."""
        return self.array


@dataclass(frozen=True, eq=False)
class NarrowConstant(Constant):
    """A constant that the device keeps in a narrower type and widens where it is used.

    Parameters
    ----------
    narrow_dtype
        numpy name of that type.
    """

    narrow_dtype: str


@dataclass(frozen=True, eq=False)
class Parameter(Value):
    """A weight of the model, with its initial content.

    Parameters
    ----------
    array
        Its content in the model's file.
    is_trainable
        Whether training updates it.
    is_streamed
        Whether the host or remote memory provides it while the program runs.
    shared_by
        The replicas that hold the same content, where not all do: then `array` is that of the
        first group.
    """

    array: NDArray[Any]
    is_trainable: bool = False
    is_streamed: bool = False
    shared_by: ReplicaGroup | None = None
    is_setting: ClassVar[bool] = False

    @property
    def content(self) -> NDArray[Any] | None:
        """The content of a frozen parameter; None when training or a stream may change it."""
        return None if self.is_trainable or self.is_streamed else self.array

    @property
    def is_held(self) -> bool:
        """Whether training updates it."""
        return self.is_trainable


@dataclass(frozen=True, eq=False)
class State(Value):
    """What a model keeps from run to run beside its weights.

    Such are accumulators, running statistics, seeds, and the hyper-parameters of an optimiser.

    Parameters
    ----------
    array
        Its content before the first run.
    is_setting
        Whether the host changes it between runs, as it does the rate of an optimiser.
    like
        The parameter as which it lies on the tiles; None if any place does.
    n_shares
        How many replicas have equal shares of what the host knows it as; `array` is a share.
    purpose
        What it is needed for.
    sharded_by, whole_shape
        The replicas that keep a shard each of a value of that shape, in order of its elements, the
        last one filled up; None if every replica keeps all of it. `array` is that of every shard.
    """

    array: NDArray[Any]
    is_setting: bool = False
    like: Parameter | None = None
    n_shares: int = 1
    purpose: Purpose = Purpose.OPTIMISER_STATE
    sharded_by: ReplicaGroup | None = None
    whole_shape: tuple[int, ...] = ()

    @property
    def is_held(self) -> bool:
        """Always true."""
        return True


@dataclass(frozen=True)
class Update:
    """What replaces a value that the device holds.

    Parameters
    ----------
    held
        A trainable parameter or a state value.
    value
        What it is afterwards: of the same shape and type. Operations read what was before.
    """

    held: Parameter | State
    value: Value
