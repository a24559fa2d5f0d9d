"""How far figures of operations can be trusted: errors of published programs, by kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.contexts import enclosing
from tilescope.analyser.program.operations import Layer, Operations, operations
from tilescope.analyser.quantities import MISSING
from tilescope.analyser.summary.provenance import provenance

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "CALLS",
    "NOT_IN_CORPUS",
    "UNKNOWN",
    "KindTrust",
    "ReportTrust",
    "Trust",
    "kind_of",
    "report_trust",
]

NOT_IN_CORPUS = "not in the corpus"
#: The error of a kind without programs that are built in full.
UNKNOWN = "unknown"
_DEPTHWISE = "depthwise convolutions"
#: Library calls and nodes of models, by kind of the published programs.
CALLS = {
    "products": ("poplin.matMul", "MatMul", "Gemm"),
    "convolutions": (
        "poplin.convolution", "poplin.transposedConvolution", "Conv", "ConvTranspose",
    ),
    "pooling": (
        "popnn.pooling", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
    ),
    "reductions": (
        "popops.reduce", "popops.reduceMany",
        *(f"Reduce{name}" for name in ("Max", "Mean", "Min", "Prod", "Sum", "SumSquare")),
    ),
    "embeddings": ("popops.multiSlice", "popops.multiUpdate", "popops.multiUpdateAdd"),
    "recurrent layers": ("popnn.lstmFwd", "popnn.gruFwd", "LSTM", "GRU"),
}  # fmt: skip
_KIND_OF_CALL = {call: kind for kind, calls in CALLS.items() for call in calls}
#: Presets of the published figures, by architecture; the first of every generation.
_PRESETS = {"ipu1": "gc2", "ipu2": "gc200", "ipu21": "gc200"}


@dataclass(frozen=True)
class KindTrust:
    """The expected errors of a kind of operation on a machine.

    Attributes
    ----------
    machine
        A preset, such as ``gc200``; its published figures are of the IPU Model.
    cycles, memory
        Expected errors as text, such as ``±5 %``.
    n_programs
        The published programs that were built in full; without any, the errors are unknown.
    """

    kind: str
    machine: str
    cycles: str
    memory: str
    n_programs: int


@dataclass(frozen=True)
class Trust:
    """A table of expected errors with its version, passed in by the CLI."""

    version: str
    kinds: tuple[KindTrust, ...]


@dataclass(frozen=True)
class ReportTrust:
    """How far figures of a report's operations can be trusted.

    Attributes
    ----------
    notes
        Sentences on where the errors come from and where they do not apply.
    by_operation
        The expected errors by key of the operation, those of no kind left out.
    without
        What is said of an operation of no kind.
    """

    notes: tuple[str, ...] = ()
    by_operation: Mapping[str, KindTrust] = field(default_factory=dict)
    without: str = MISSING

    def short(self, key: str) -> str:
        """Return the expected error of an operation's cycles, a dash for one of no kind."""
        trust = self.by_operation.get(key)
        return MISSING if trust is None else trust.cycles

    def text(self, key: str) -> str:
        """Return the expected errors of an operation, with their origin."""
        trust = self.by_operation.get(key)
        if trust is None:
            return self.without
        if not trust.n_programs:
            return f"{trust.kind}: {UNKNOWN}, no published program is built in full"
        return f"{trust.kind}: cycles {trust.cycles}, memory {trust.memory}"

    def of_calls(self, listed: Operations) -> dict[str, str]:
        """Return the expected errors of cycles by call."""
        texts: dict[str, dict[str, None]] = {}
        for key, operation in listed.by_key.items():
            trust = self.by_operation.get(key)
            text = self.without if trust is None else trust.cycles
            texts.setdefault(operation.operation, {})[text] = None
        return {call: ", ".join(distinct) for call, distinct in texts.items()}


def kind_of(call: str, detail: str = "") -> str:
    """Return the kind of a library call or of a model's node; empty for one of no kind.

    Parameters
    ----------
    call
        Such as ``poplin.matMul`` or ``MatMul``.
    detail
        Its arguments as JSON.
    """
    kind = _KIND_OF_CALL.get(call, "")
    return _DEPTHWISE if kind == "convolutions" and _n_groups(detail) > 1 else kind


def _n_groups(detail: str) -> int:
    """Return the groups of a convolution; 1 for arguments without any."""
    try:
        arguments = json.loads(detail or "{}")
    except (RecursionError, ValueError):
        return 1
    nested = arguments.get("attributes") if isinstance(arguments, dict) else None
    for facts in (arguments, nested):
        if isinstance(facts, dict):
            groups = facts.get("groups", facts.get("group"))
            if isinstance(groups, int):
                return groups
    return 1


@cached
def report_trust(report: Report, trust: Trust | None, layer: Layer = "library") -> ReportTrust:
    """Return how far figures of a report's operations can be trusted; nothing without a table."""
    if trust is None:
        return ReportTrust()
    machine = target(report)
    preset = _PRESETS.get(machine.architecture, "")
    by_kind = {row.kind: row for row in trust.kinds if row.machine == preset}
    if not by_kind:
        note = f"The corpus has no programs for {machine.architecture}."
        return ReportTrust((note,), without=NOT_IN_CORPUS)
    kinds = {
        key: _kind(report, operation.debug_context_id, layer)
        for key, operation in operations(report, layer).by_key.items()
    }
    by_operation = {key: by_kind[kind] for key, kind in kinds.items() if kind in by_kind}
    return ReportTrust(_notes(report, trust, preset), by_operation, NOT_IN_CORPUS)


def _kind(report: Report, context_id: int, layer: Layer) -> str:
    """Return the kind of an operation by its context; a step is of its outermost library call."""
    around = enclosing(report, context_id)
    if layer == "step":
        calls = [context for context in around if context.level == "library"]
        return kind_of(calls[-1].operation, calls[-1].detail) if calls else ""
    return kind_of(around[0].operation, around[0].detail) if around else ""


def _notes(report: Report, trust: Trust, preset: str) -> tuple[str, ...]:
    """Return where the errors come from, and what they are not about."""
    machine = target(report)
    notes = [
        "Expected errors are those of published programs, by kind, on the IPU Model of"
        f" {preset.upper()} (table {trust.version})."
    ]
    if machine.parameter_set != "ipu_model" or machine.name != preset:
        words = {"ipu_model": "the IPU Model of ", "hardware": "the hardware figures of "}
        subject = f"{words.get(machine.parameter_set, '')}{machine.name}"
        notes.append(f"This report is of {subject}, for which the corpus has no figures.")
    made_with = provenance(report).get("fidelity_version", "")
    if made_with and made_with != trust.version:
        notes.append(f"It was made with table {made_with}.")
    return tuple(notes)
