"""The program tree as its author builds it; the compiler lowers it to steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import BadGraph
from engine.graph.debug import ROOT, DebugContext
from engine.graph.graph import ComputeSet
from engine.graph.tensor import Tensor

__all__ = [
    "Copy",
    "Execute",
    "Program",
    "Repeat",
    "Sequence",
    "StreamCopyIn",
    "StreamCopyOut",
    "WriteUndef",
]


@dataclass(eq=False, kw_only=True)
class Program:
    """Base of all programs."""

    debug: DebugContext = ROOT


@dataclass(eq=False)
class Sequence(Program):
    """Programs one after the other."""

    name: str = ""
    children: list[Program] = field(default_factory=list)

    def add(self, *programs: Program) -> Sequence:
        """Append programs and return the sequence."""
        self.children.extend(programs)
        return self


@dataclass(eq=False)
class Execute(Program):
    """Run a compute set, after the exchange its vertices need."""

    compute_set: ComputeSet


@dataclass(eq=False)
class Copy(Program):
    """Copy the elements of `source` to `target`, in logical order."""

    source: Tensor
    target: Tensor
    name: str = "Copy"

    def __post_init__(self) -> None:
        """Check that the two agree.

        Raises
        ------
        BadGraph
            When shapes or types differ.
        """
        if self.source.shape != self.target.shape or self.source.dtype != self.target.dtype:
            raise BadGraph(
                f"Copy {self.name!r}: {self.source.dtype} {self.source.shape} cannot go to"
                f" {self.target.dtype} {self.target.shape}"
            )


@dataclass(eq=False)
class Repeat(Program):
    """Run `body` a fixed number of times."""

    count: int
    body: Program
    name: str = ""

    def __post_init__(self) -> None:
        """Check the count.

        Raises
        ------
        BadGraph
            When it is less than 1.
        """
        if self.count < 1:
            raise BadGraph(f"Repeat {self.name!r} runs {self.count} times: at least 1 is needed")


@dataclass(eq=False)
class StreamCopyIn(Program):
    """Copy from the host's stream `stream` into `target`."""

    stream: str
    target: Tensor


@dataclass(eq=False)
class StreamCopyOut(Program):
    """Copy `source` to the host's stream `stream`."""

    source: Tensor
    stream: str


@dataclass(eq=False)
class WriteUndef(Program):
    """Say that the content of a tensor is no longer needed."""

    target: Tensor
