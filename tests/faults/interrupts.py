"""Interrupts at random instructions of a recorded program: runs are recorded whole or not at all.

An exception is raised in the main thread either by a signal at a random time, or at a chosen
bytecode instruction of the engine, its recorder or the writer. A third of the programs runs on
afterwards, as a notebook does, and then closes the engine.
"""

from __future__ import annotations

import ctypes
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from tests.faults.program import contradictions, run_names, start

from tilescope.engine import Engine
from tilescope.reports import ReportNotFound, ReportWriter, State, open_report

__all__ = ["run", "run_in_thread"]

_KINDS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, MemoryError)
#: What a signal handler's sys.exit gives, which is not a regular end.
_EXIT_CODE = 143
_N_RUNS = 40
_TRACED = (
    "/engine/recorder/",
    "/engine/execute/device.py",
    "/engine/session/engine.py",
    "/reports/",
)


@dataclass
class _Trial:
    """What one program did, as the program itself knows it."""

    directory: Path
    n_ipus: int
    returned: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    was_interrupted: bool = False
    lost: str = ""

    def work(self, arm: Callable[[], Any]) -> None:
        """Run the program; ``arm`` returns a context in which an exception comes."""
        engine = start(self.directory, self.n_ipus)
        try:
            with arm(), engine:
                self._run(engine, "a")
        except _KINDS:
            self.was_interrupted = True

    def _run(self, engine: Engine, prefix: str) -> None:
        for number in range(_N_RUNS):
            name = f"{prefix}{number}"
            self.begun.append(name)
            engine.run(name=name)
            self.returned.append(name)


class _Notebook(_Trial):
    """A program that goes on after the interrupt, with the same engine."""

    def work(self, arm: Callable[[], Any]) -> None:
        """Run until the interrupt, run on, close."""
        engine = start(self.directory, self.n_ipus)
        try:
            with arm():
                self._run(engine, "a")
        except _KINDS:
            self.was_interrupted = True
        self._run(engine, "b")
        engine.close()


class _Beginning(_Trial):
    """A program that may be interrupted while its engine begins the report."""

    def work(self, arm: Callable[[], Any]) -> None:
        """Begin and run a little."""
        try:
            with arm(), start(self.directory, self.n_ipus) as engine:
                self.lost = engine.recorder.lost
                engine.run(name="a0")
        except _KINDS:
            self.was_interrupted = True


def _judge_beginning(trial: _Trial) -> list[str]:
    """Return what is wrong where a report may not even have begun."""
    try:
        with open_report(trial.directory) as report:
            names, state = run_names(report), report.state.state
    except ReportNotFound:
        return [] if trial.was_interrupted or trial.lost else ["there is no report"]
    allowed = [State.ENDED_EARLY, State.COMPLETE] if trial.was_interrupted else [State.COMPLETE]
    problem = contradictions(trial.directory) if names else []
    if state not in allowed or names not in ([], ["a0"]):
        problem.append(f"the state is {state} with {names}")
    ReportWriter.create(trial.directory).abandon()  # no lock is left
    return problem


def _judge(trial: _Trial) -> list[str]:
    """Return what is wrong with the report that a trial left."""
    if isinstance(trial, _Beginning):
        return _judge_beginning(trial)
    problem = contradictions(trial.directory)
    if problem:
        return problem
    with open_report(trial.directory) as report:
        names, state = run_names(report), report.state.state
    order = {name: number for number, name in enumerate(trial.begun)}
    if [order.get(name, -1) for name in names] != sorted(order.get(name, -1) for name in names):
        problem.append(f"runs are not in order: {names}")
    # The run that was interrupted may have ended just before.
    lost = [name for name in trial.returned if name not in names]
    if lost:
        problem.append(f"runs are lost: {lost}")
    if set(names) - set(trial.begun):
        problem.append(f"unknown runs: {names}")
    expected = {State.COMPLETE}
    if trial.was_interrupted and not isinstance(trial, _Notebook):
        expected = {State.ENDED_EARLY}
        if len(trial.returned) == _N_RUNS:  # it came while the engine was being closed
            expected.add(State.COMPLETE)
    if state not in expected:
        problem.append(f"the state is {state}, expected {sorted(expected)}")
    return problem


def _exception(kind: type[BaseException]) -> BaseException:
    return SystemExit(_EXIT_CODE) if kind is SystemExit else kind()


@contextmanager
def _signal_after(seconds: float, kind: type[BaseException]) -> Iterator[None]:
    """Raise an exception from a signal handler after some time.

    The garbage collector's callbacks (hypothesis adds one) are left out meanwhile: what
    is raised inside of one is only reported, and reaches no program.
    """

    def raise_it(*_: object) -> None:
        raise _exception(kind)

    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.callbacks.extend(callbacks)


class _AtInstruction:
    """Raises an exception at the nth bytecode instruction of the traced files."""

    def __init__(self, number: int, kind: type[BaseException]) -> None:
        self.left = number
        self.kind = kind

    def __enter__(self) -> None:
        sys.settrace(self._enter_frame)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter_frame(self, frame: FrameType, *_: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _TRACED):
            return None
        frame.f_trace_opcodes = True
        return self._at_opcode

    def _at_opcode(self, _frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise _exception(self.kind)
        return self._at_opcode


def _n_instructions(make: type[_Trial]) -> int:
    """Return how many traced instructions a trial executes."""
    with TemporaryDirectory() as directory:
        counter = _AtInstruction(-1, KeyboardInterrupt)
        make(Path(directory) / "r", 1).work(lambda: counter)
    return -1 - counter.left


def run_in_thread(number: int, seed: int = 0) -> dict[str, int | float | list[str]]:
    """Raise MemoryError in the thread that records, at random times; return counts and failures."""
    failures: list[str] = []
    n_lost = 0
    began = time.monotonic()
    for trial_seed in range(seed, seed + number):
        delay_s = random.Random(trial_seed).random() * 0.03
        with TemporaryDirectory() as directory:
            engine = start(Path(directory) / "r")
            recording = engine.recorder._recording
            assert recording is not None
            thread_id = ctypes.c_ulong(recording._desk.thread.ident or 0)
            error = ctypes.py_object(MemoryError)
            raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
            timer = threading.Timer(delay_s, raise_in_thread, (thread_id, error))
            timer.start()
            acknowledged = 0
            with engine:
                for name in range(_N_RUNS):
                    engine.run(name=f"a{name}")
                    engine.flush_report()
                    acknowledged = acknowledged if engine.recorder.lost else name + 1
            timer.join()
            problem = contradictions(Path(directory) / "r")
            if not problem:
                with open_report(Path(directory) / "r") as report:
                    names, state = run_names(report), report.state.state
                is_lost = bool(engine.recorder.lost)
                n_lost += is_lost
                if len(names) < acknowledged or (not is_lost and len(names) < _N_RUNS):
                    problem.append(f"{acknowledged} were acknowledged, {len(names)} are there")
                if state is not (State.ENDED_EARLY if is_lost else State.COMPLETE):
                    problem.append(f"the state is {state}, lost: {engine.recorder.lost!r}")
        failures += [f"seed {trial_seed}: {sentence}" for sentence in problem]
    seconds = round(time.monotonic() - began, 1)
    return {"trials": number, "lost_reports": n_lost, "failures": failures, "seconds": seconds}


def run(number: int, seed: int = 0) -> dict[str, int | float | list[str]]:
    """Interrupt programs and return counts: trials, interrupted, continued, and failures.

    Parameters
    ----------
    number
        Trials; a third of them continues, and half of them is interrupted by a signal.
    seed
        Of the first trial.
    """
    makes = (_Notebook, _Trial, _Trial, _Notebook, _Beginning, _Trial)
    n_instructions = {make: _n_instructions(make) for make in set(makes)}
    counts = {"trials": 0, "interrupted": 0, "continued": 0, "recorded_runs": 0}
    failures: list[str] = []
    began = time.monotonic()
    for trial_seed in range(seed, seed + number):
        random_numbers = random.Random(trial_seed)
        kind = random_numbers.choice(_KINDS)
        make = random_numbers.choice(makes)
        arm: Callable[[], Any]
        if trial_seed % 2:
            arm = partial(_AtInstruction, random_numbers.randrange(1, n_instructions[make]), kind)
        else:
            arm = partial(_signal_after, random_numbers.random() * 0.03, kind)
        with TemporaryDirectory() as directory:
            trial = make(Path(directory) / "r", 1 + trial_seed // 2 % 2)
            with suppress(SystemExit):
                trial.work(arm)
            gc.collect()
            problem = _judge(trial)
        counts["trials"] += 1
        counts["interrupted"] += trial.was_interrupted
        counts["continued"] += isinstance(trial, _Notebook) and trial.was_interrupted
        counts["recorded_runs"] += len(trial.returned)
        failures += [f"seed {trial_seed} ({kind.__name__}): {sentence}" for sentence in problem]
    return {**counts, "failures": failures, "seconds": round(time.monotonic() - began, 1)}
