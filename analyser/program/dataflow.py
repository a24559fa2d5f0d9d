"""Data flow between operations: which operation reads what another one computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.program.operations import Layer, numbers_of_steps
from tilescope.analyser.time.execution import steps
from tilescope.analyser.validation import require, require_below
from tilescope.reports.schema import DATAFLOW_COLUMNS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Dataflow", "operation_flows"]

_TARGET, _VARIABLE, _SOURCE, _BYTES = range(len(DATAFLOW_COLUMNS))


@dataclass(frozen=True)
class Dataflow:
    """The flows between the operations of a layer.

    Attributes
    ----------
    is_recorded
        Whether the report states any flow between steps.
    n_bytes
        Bytes that one operation reads of what another computed, by the numbers of both, source
        first: the sum over steps and variables, of one execution each.
    """

    is_recorded: bool
    n_bytes: Mapping[tuple[int, int], int]


@cached
def operation_flows(report: Report, layer: Layer) -> Dataflow:
    """Return the flows between different operations of a layer.

    A step in no operation, such as a copy of the graph's author, passes on what it reads: what
    reads its results is linked to the operations that it read from.
    """
    rows = _flows(report)
    owner = numbers_of_steps(report, layer)
    source, target = owner[rows[:, _SOURCE]], owner[rows[:, _TARGET]]
    n_bytes: dict[tuple[int, int], int] = {}

    def add(source: int, target: int, size: int) -> None:
        if source != target:
            n_bytes[source, target] = n_bytes.get((source, target), 0) + size

    is_own = (source >= 0) & (target >= 0)
    sizes = rows[:, _BYTES]
    for first, second, size in zip(
        source[is_own].tolist(), target[is_own].tolist(), sizes[is_own].tolist(), strict=True
    ):
        add(first, second, size)
    is_passed = (source < 0) & (target >= 0)
    if is_passed.any():
        passing = _Passing(rows, owner)
        for step, second, size in zip(
            rows[is_passed, _SOURCE].tolist(),
            target[is_passed].tolist(),
            sizes[is_passed].tolist(),
            strict=True,
        ):
            for first, n_bytes_at_most in passing.origins(step).items():
                add(first, second, min(size, n_bytes_at_most))
    return Dataflow(bool(len(rows)), dict(sorted(n_bytes.items())))


def _flows(report: Report) -> NDArray[np.int64]:
    """Return the flows between steps as rows of the columns: ndarray of int64, shape (n, 4).

    Raises
    ------
    DamagedReport
        When the columns differ in length, or a step does not exist.
    """
    columns = [report.array(f"dataflow.{name}").read() for name in DATAFLOW_COLUMNS]
    is_even = len({len(column) for column in columns}) == 1
    require(report, is_even, "the columns of dataflow have different lengths")
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    for column in (_TARGET, _SOURCE):
        require_below(report, rows[:, column], len(steps(report)), "step")
    return rows


class _Passing:
    """The operations that steps in no operation read from, however many such steps are between."""

    def __init__(self, rows: NDArray[np.int64], owner: NDArray[np.int64]) -> None:
        self._owner = owner
        self._known: dict[int, dict[int, int]] = {}
        self._reads: dict[int, list[tuple[int, int]]] = {}
        passed_on = rows[owner[rows[:, _TARGET]] < 0]
        for target, _, source, size in passed_on.tolist():
            self._reads.setdefault(target, []).append((source, size))

    def origins(self, step: int) -> dict[int, int]:
        """Return the numbers of the operations that a step reads from, with the most bytes."""
        if step not in self._known:
            origins_: dict[int, int] = {}
            visited, waiting = {step}, [step]
            for origin in waiting:
                for source, size in self._reads.get(origin, ()):
                    number = int(self._owner[source])
                    if number >= 0:
                        origins_[number] = max(origins_.get(number, 0), size)
                    elif source not in visited:
                        visited.add(source)
                        waiting.append(source)
            self._known[step] = origins_
        return self._known[step]
