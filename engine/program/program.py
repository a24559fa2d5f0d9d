"""The program tree as its author builds it; the compiler lowers it to steps."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any

from tilescope.engine.arguments import a_count, a_kind, a_list, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.identity.debug import ROOT, DebugContext
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.tensor.joined import View
from tilescope.engine.graph.tensor.tensor import Tensor
from tilescope.engine.graph.vertex.compute_set import ComputeSet
from tilescope.engine.graph.vertex.plan_stage import PlanStage
from tilescope.engine.program.print_format import PrintFormat

__all__ = [
    "Block",
    "Call",
    "Copy",
    "CrossReplicaCopy",
    "ErrorProgram",
    "Execute",
    "Function",
    "If",
    "Overlap",
    "PrintTensor",
    "Program",
    "RemoteCopyIn",
    "RemoteCopyOut",
    "Repeat",
    "RepeatWhile",
    "ReplicaSources",
    "Sequence",
    "Site",
    "StreamCopyIn",
    "StreamCopyOut",
    "Switch",
    "Sync",
    "WriteUndef",
]


#: Source: Poplar's programs, whose Repeat count is an unsigned 32-bit integer.
_MOST_ROUNDS = (1 << 32) - 1


@dataclass(eq=False, kw_only=True)
class Program:
    """Base class of all programs."""

    debug: DebugContext = ROOT


@dataclass(eq=False)
class Sequence(Program):
    """Run programs in order."""

    name: str = ""
    children: list[Program] = field(default_factory=list)

    def add(self, *programs: Program) -> Sequence:
        """Append programs and return the sequence."""
        self.children.extend(programs)
        return self


@dataclass(frozen=True)
class Site:
    """The place at which a compute set runs, if that is not where it was made.

    Parameters
    ----------
    name, debug
        Name and context of the steps.
    plan_stage
        The plan stage that they implement; None where nothing was planned.
    """

    name: str
    debug: DebugContext
    plan_stage: PlanStage | None = None


@dataclass(eq=False)
class Execute(Program):
    """Run a compute set, after the exchange that its vertices need.

    At several places, a compute set is the same vertices on the same variables, with one exchange
    code and one set of message buffers. `site` names the place; by default, it is the compute
    set's own.
    """

    compute_set: ComputeSet
    site: Site | None = None


@dataclass(eq=False)
class Copy(Program):
    """Copy the elements of `source` to `target`, in logical order."""

    source: View
    target: View
    name: str = "Copy"

    def __post_init__(self) -> None:
        """Check that source and target match.

        Raises
        ------
        BadGraph
            When one is not a tensor, or shapes or types differ.
        """
        _check_ends(self, self.source, self.target, self.name)


@dataclass(frozen=True)
class ReplicaSources:
    """Which replica every replica receives from.

    Parameters
    ----------
    of
        By part and replica, from 0: the one that it receives from; itself for a copy of its own.
        The elements of the tensors, in their order, make as many equal parts.
    """

    of: tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class CrossReplicaCopy(Program):
    """Copy `source` of other replicas to `target`, in logical order; all replicas copy at once.

    The replicas wait for each other. `sources` names, by replica, the one that it receives from. A
    list of such lists divides the elements into as many equal parts, which travel together.
    """

    source: View
    target: View
    sources: ReplicaSources | Items[int] | Items[Items[int]]
    name: str = "CrossReplicaCopy"

    def __post_init__(self) -> None:
        """Check that source and target match, and that the replicas are numbers.

        Raises
        ------
        BadGraph
            When they do not or are not.
        """
        _check_ends(self, self.source, self.target, self.name)
        if not isinstance(self.sources, ReplicaSources):
            self.sources = self._checked_sources(self.sources)

    def _checked_sources(self, sources: object) -> ReplicaSources:
        subject = f"The sources of CrossReplicaCopy {shown(self.name)}"
        what = "the replica that each replica receives from"
        rows: list[Any] = list(a_list(subject, sources, what))
        if not rows or not isinstance(rows[0], list | tuple):
            rows = [rows]
        if self.source.n_elements % len(rows):
            raise BadGraph(
                f"{subject} are those of {len(rows)} parts, which do not divide"
                f" {self.source.n_elements} elements"
            )
        whose = f"{subject}: that of replica"
        return ReplicaSources(
            tuple(
                tuple(
                    a_count(f"{whose} {r}", n, 0) for r, n in enumerate(a_list(subject, row, what))
                )
                for row in rows
            )
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
            When it is less than 1, or exceeds 32 bits.
        """
        subject = f"The count of Repeat {shown(self.name)}"
        self.count = a_count(subject, self.count, 1, _MOST_ROUNDS)


@dataclass(eq=False)
class RepeatWhile(Program):
    """Run `condition`, test `predicate`, and run `body`, in a loop.

    With ``while_true`` the loop continues while the predicate is not zero, else while it is zero.
    """

    condition: Program
    predicate: Tensor
    body: Program
    while_true: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        """Check the predicate."""
        _check_scalar(self.predicate, f"RepeatWhile {shown(self.name)}")


@dataclass(eq=False)
class If(Program):
    """Run `then` if `predicate` is not zero, else `otherwise`."""

    predicate: Tensor
    then: Program
    otherwise: Program
    name: str = ""

    def __post_init__(self) -> None:
        """Check the predicate."""
        _check_scalar(self.predicate, f"If {shown(self.name)}")


@dataclass(eq=False)
class Switch(Program):
    """Run the case whose value `control` holds, or `default`."""

    control: Tensor
    cases: Mapping[int, Program]
    default: Program
    name: str = ""

    def __post_init__(self) -> None:
        """Check the control tensor."""
        _check_scalar(self.control, f"Switch {shown(self.name)}")


@dataclass(frozen=True)
class PipelineRole:
    """What a function is for in a pipeline, for its report.

    Parameters
    ----------
    part
        ``work``, ``load`` or ``store`` of stages, or ``copies`` from stage to stage.
    stages
        ``forward`` or ``backward`` with the number of the author's stage, such as ``forward 0``;
        two where forward and backward are one. None for copies.
    """

    part: str
    stages: tuple[str, ...] = ()


@dataclass(eq=False)
class Function:
    """A program that is compiled once and called from several places."""

    body: Program
    name: str = ""
    role: PipelineRole | None = None


@dataclass(eq=False)
class Call(Program):
    """Run a function."""

    function: Function


@dataclass(eq=False)
class Sync(Program):
    """Wait for all tiles or, with ``external``, for all IPUs."""

    external: bool = False
    name: str = ""


@dataclass(eq=False)
class Block(Program):
    """A named body in the program tree and the trace."""

    name: str
    body: Program


@dataclass(eq=False)
class Overlap(Program):
    """Run `io` on the I/O tiles and `compute` on the compute tiles concurrently; wait for both.

    Host and remote copies belong in `io`. Neither side may use a tile of the other side, or a
    variable that the other side writes: copy shared data before or after.
    """

    io: Program
    compute: Program
    name: str = ""


@dataclass(eq=False)
class PrintTensor(Program):
    """Print a tensor on the host when the program reaches this point."""

    tensor: View
    title: str = ""
    form: PrintFormat | None = None


@dataclass(eq=False)
class ErrorProgram(Program):
    """End the run with an error that contains a message and the values of a tensor."""

    message: str
    tensor: View | None = None


def _check_scalar(tensor: Tensor, where: str) -> None:
    """Raise BadGraph unless a tensor is one integer.

    Raises
    ------
    BadGraph
        When it has several elements or is a floating-point tensor.
    """
    if not isinstance(tensor, Tensor):
        raise BadGraph(f"{where}: expected a tensor as its control, got {shown(tensor)}")
    if tensor.n_elements != 1 or tensor.dtype.is_float:
        raise BadGraph(
            f"{where}: expected one int32 or bool as its control, got {tensor.dtype} {tensor.shape}"
        )


def _check_ends(program: Program, source: View, target: View, name: str) -> None:
    """Raise BadGraph unless source and target of a copy are tensors of one shape and type."""
    kind = type(program).__name__
    for part, tensor in (("source", source), ("target", target)):
        _check_tensor(f"{kind} {shown(name)}: its {part}", tensor)
    if source.shape != target.shape or source.dtype != target.dtype:
        raise BadGraph(
            f"{kind} {name!r}: cannot copy {source.dtype} {source.shape} to {target.dtype}"
            f" {target.shape}"
        )


def _check_tensor(subject: str, tensor: object) -> None:
    a_kind(subject, tensor, View, "the result of add_variable, or a view on it")


@dataclass(eq=False)
class StreamCopyIn(Program):
    """Copy from host stream `stream` to `target`."""

    stream: str
    target: View


@dataclass(eq=False)
class StreamCopyOut(Program):
    """Copy `source` to host stream `stream`."""

    source: View
    stream: str


@dataclass(eq=False)
class RemoteCopyIn(Program):
    """Copy a row of a remote buffer to `target`, or several rows if `row` holds several indices."""

    buffer: RemoteBuffer
    target: View
    row: int | View = 0

    def __post_init__(self) -> None:
        """Check that buffer, tensor and row match."""
        _check_rows(self.buffer, self.target, self.row)


@dataclass(eq=False)
class RemoteCopyOut(Program):
    """Copy `source` to a row of a remote buffer, or to several if `row` holds several indices."""

    source: View
    buffer: RemoteBuffer
    row: int | View = 0

    def __post_init__(self) -> None:
        """Check that buffer, tensor and row match."""
        _check_rows(self.buffer, self.source, self.row)


def _check_rows(buffer: RemoteBuffer, tensor: View, row: int | View) -> None:
    """Raise BadGraph unless a tensor matches the requested rows of a remote buffer.

    Raises
    ------
    BadGraph
        When type or number of elements differ, or a row is out of range or not an integer.
    """
    a_kind("The buffer of a remote copy", buffer, RemoteBuffer, "the result of add_remote_buffer")
    _check_tensor(f"A copy of remote buffer {buffer.name!r}: its tensor", tensor)
    n_rows = 1
    if isinstance(row, View):
        if row.dtype.name != "int32":
            raise BadGraph(
                f"Row indices of remote buffer {buffer.name!r} are int32, not {row.dtype}"
            )
        n_rows = row.n_elements
    elif not 0 <= a_count(f"The row of remote buffer {buffer.name!r}", row) < buffer.repeats:
        raise BadGraph(
            f"Remote buffer {buffer.name!r} has rows 0 to {buffer.repeats - 1}, not {row}"
        )
    if tensor.dtype != buffer.dtype or tensor.n_elements != n_rows * buffer.n_elements:
        raise BadGraph(
            f"Remote buffer {buffer.name!r} holds rows of {buffer.n_elements} {buffer.dtype}:"
            f" {n_rows} of them do not match a tensor of {tensor.dtype} {tensor.shape}"
        )


@dataclass(eq=False)
class WriteUndef(Program):
    """Mark the contents of a tensor as no longer needed."""

    target: View
