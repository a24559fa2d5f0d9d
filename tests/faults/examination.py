"""What readers make of one damaged report: every answer is right, or one sentence of refusal."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.analyser_walk import calls
from tests.faults.command_lines import COMMAND_LINES, answer
from tests.faults.pva_walk import visited_names

from tilescope.analyser.errors import AnalyserError
from tilescope.reports import Report, ReportError, explain_damage, open_report
from tilescope.reports.schema import ARRAYS, TABLES

__all__ = ["Examination", "Verdict", "whole_content"]

#: Processor time of one answer, seconds.
LIMIT_S = 2.0
_SEALS = ("row_block", "milestone")
_NAMES = {
    "engine": ("conv", "conv/convolution/out"),
    "loop": ("layer1/conv", "weights"),
    "generated": ("layer0/mlp/up/matmul", "0"),
}


@dataclass
class Verdict:
    """The outcome of a mutant: a category, and what went wrong."""

    outcome: str = "identical"
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    n_answers: int = 0


def whole_content(report: Report) -> list[Any]:
    """Return all rows and values of a report."""
    tables = [report.table(table) for table in TABLES.values() if table.name not in _SEALS]
    arrays = [report.array(name).read() for name in ARRAYS]
    return [report.milestones, tables, [(values.shape, values.tobytes()) for values in arrays]]


class Examination:
    """Examines mutants of one sound report, at one path."""

    def __init__(self, name: str, sound: bytes, directory: Path) -> None:
        self.sound = sound
        operation, variable = _NAMES[name]
        self._words = {"operation": operation, "variable": variable}
        self.move(directory)
        with open_report(self.path) as report, open_report(self._original) as peer:
            self._content = whole_content(report)
            for _, call in calls(report, peer):
                with suppress(AnalyserError, KeyError, IndexError, TypeError, ValueError):
                    call()
        # Also loads what commands import, before memory is limited.
        self.answers = {line: self._answer(line) for line in COMMAND_LINES}
        visited_names(self.path)

    def move(self, directory: Path) -> None:
        """Use another directory, as every process does."""
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / "profile.pop"
        self._original = directory / "original.pop"
        self._directory = str(directory)
        for path in (self.path, self._original):
            path.write_bytes(self.sound)

    def _answer(self, line: str) -> tuple[int, str, str]:
        files = {"r": str(self.path), "o": str(self._original), "d": self._directory}
        code, output, message = answer(line, {**self._words, **files})
        return code, output.replace(self._directory, ""), message

    def examine(
        self, generator: random.Random, *, is_resealed: bool, n_lines: int, n_calls: int
    ) -> Verdict:
        """Return the verdict on the file at the path.

        Parameters
        ----------
        generator
            Chooses commands and calls.
        is_resealed
            Whether other content is right.
        n_lines, n_calls
            Command lines, and calls of the analyser, at most.
        """
        verdict = Verdict()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".*report is damaged")  # pva says so
            for kind, question in self._questions(
                verdict, generator, is_resealed, n_lines, n_calls
            ):
                began = time.process_time()
                try:
                    question()
                except (ReportError, AnalyserError) as error:
                    if "\n" in str(error) or len(str(error)) > 2_000:
                        verdict.failures.append(f"{kind}: more than a sentence: {str(error)[:200]}")
                except BaseException as error:
                    verdict.failures.append(f"{kind}: {_described(error)}")
                seconds = time.process_time() - began
                verdict.n_answers += 1
                verdict.slowest_s = max(verdict.slowest_s, seconds)
                if seconds > LIMIT_S:
                    verdict.failures.append(f"{kind}: {seconds:.1f} s")
        return verdict

    def _questions(
        self,
        verdict: Verdict,
        generator: random.Random,
        is_resealed: bool,
        n_lines: int,
        n_calls: int,
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "content", lambda: self._compare(verdict, is_resealed)
        can_open = verdict.outcome != "refused"
        lines = generator.sample(COMMAND_LINES, min(n_lines, len(COMMAND_LINES)))
        for line in lines if can_open else lines[:1]:
            yield line, partial(self._run, line, verdict.outcome, is_resealed)
        if can_open and (is_resealed or generator.random() < 0.1):
            yield "pva", lambda: visited_names(self.path)
        if can_open and n_calls:
            yield from self._calls(generator, n_calls)

    def _calls(
        self, generator: random.Random, n_calls: int
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        with open_report(self.path) as report, open_report(self._original) as peer:
            try:
                listed = list(calls(report, peer))
            except (ReportError, ValueError):
                return
            for name, call in generator.sample(listed, min(n_calls, len(listed))):

                def guarded(call: Callable[[], Any] = call) -> None:
                    with explain_damage(report):
                        call()

                yield name, guarded

    def _compare(self, verdict: Verdict, is_resealed: bool) -> None:
        verdict.outcome = "refused"
        with open_report(self.path) as report:
            verdict.outcome = "damaged"
            content = whole_content(report)
            is_same = content == self._content
            verdict.outcome = "identical" if is_same else "changed"
            if not is_same and not is_resealed:
                raise AssertionError("the content has changed in silence")

    def _run(self, line: str, outcome: str, is_resealed: bool) -> None:
        code, output, message = self._answer(line)
        is_told = "report is damaged" in f"{output}{message}".lower()
        if code not in (0, 1, 2, 3):
            raise AssertionError(f"exit code {code}: {message[-1500:]}")
        if "Traceback" in message or (code == 2 and not message.startswith("tilescope: ")):
            raise AssertionError(f"exit code {code} with {message[-1500:]!r}")
        is_other = (code, output) != self.answers[line][:2]
        if is_resealed or code == 2 or is_told:
            return
        if is_other:
            raise AssertionError("the answer has changed in silence")
        if outcome == "damaged":
            raise AssertionError("nothing is said of the damage")


def _described(error: BaseException) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-4:]
    positions = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)
    )
    return f"{type(error).__name__}: {str(error)[:1500]} ({positions})"
