"""Runs ended by a user's function, and closed engines: errors of one sentence."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from tilescope.engine import Engine, Field, Graph, Scalar, codelet, compile_programs, load_machine
from tilescope.engine.errors import (
    BadGraph,
    BadInput,
    CallbackFailed,
    EngineBusy,
    EngineClosed,
    EngineError,
    KernelFailed,
    ProgramError,
)
from tilescope.engine.graph import blocks
from tilescope.engine.options import resolve
from tilescope.engine.program import (
    Copy,
    ErrorProgram,
    Execute,
    PrintTensor,
    Program,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)
from tilescope.reports import State, check_report, open_report
from tilescope.reports.schema import notice, run


class OfTheUserError(Exception):
    """An exception of a user's function."""


def failing(*_: Any) -> Any:
    raise OfTheUserError("no more pictures\nat all")


def odd(out: Any, which: Any) -> None:
    if which == 1:
        raise ValueError("this vertex cannot be")
    out[:] = which


def importing(out: Any, which: Any) -> None:
    import os

    out[0] = which + os.getpid()


def of_no_type(out: Any, which: Any) -> None:
    out[0] = which.no_such_attribute


class Small:
    """Four elements on two tiles, and engines that write a report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=2))
        self.x = self.graph.add_variable("float32", (4,), "x")
        self.graph.map_linearly(self.x)

    def engine(self, program: Program) -> Engine:
        settings = {"autoReport.all": "true", "autoReport.directory": str(self.folder)}
        return Engine(compile_programs(self.graph, [program]), resolve(environ={}, code=settings))

    def compute(self, function: Callable[..., object]) -> Execute:
        """Return a program that runs a function on both tiles, one with 0 and one with 1."""
        built = codelet(
            Field("out", "out"),
            scalars=[Scalar("which")],
            law=lambda batch, _: batch.size["out"][:, 0],
            code_bytes=8,
        )(function)
        where = self.graph.add_compute_set("settle")
        regions = blocks(self.x.variable, np.array([0, 2]), [2], [1], 2)
        self.graph.add_vertices(where, built, [0, 1], {"out": regions}, {"which": [0, 1]})
        return Execute(where)

    def told(self, state: State = State.COMPLETE) -> tuple[str, str]:
        """Return code and message of the only notice of the report, which has no runs."""
        path = self.folder
        with open_report(path) as report:
            assert report.state.state is state
            ((severity, code, message),) = report.rows(notice, "severity", "code", "message")
            assert not report.rows(run)
        assert check_report(path) == []
        assert severity == "error"
        return code, message


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def is_one_sentence(error: EngineError, *words: str) -> bool:
    return "\n" not in str(error) and all(word in str(error) for word in words)


@pytest.mark.parametrize("is_input", [True, False])
def test_a_callback_that_raises(small: Small, is_input: bool) -> None:
    program = StreamCopyIn("data", small.x) if is_input else StreamCopyOut(small.x, "data")
    with small.engine(program) as engine:
        engine.connect_stream("data", failing)
        with pytest.raises(CallbackFailed) as caught:
            engine.run()
    assert caught.value.code == "callback_failed"
    assert isinstance(caught.value.__cause__, OfTheUserError)
    assert caught.value.__cause__.__traceback__ is not None
    assert is_one_sentence(caught.value, "stream 'data'", "OfTheUserError: no more pictures")
    code, message = small.told()
    assert code == "callback_failed"
    assert message.startswith("A run of program 0 failed and has no trace: The function connected")


def test_a_run_with_a_name_that_fails_before_one_that_does_not(small: Small) -> None:
    with small.engine(StreamCopyIn("data", small.x)) as engine:
        with pytest.raises(BadInput, match="not connected"):
            engine.run(name="warm-up")
        engine.connect_stream("data", np.ones(4, np.float32))
        engine.run()
        with engine.get_report() as report:
            (message,) = report.column(notice, "message")
            assert message.startswith("Run 'warm-up' of program 0 failed")
            assert len(report.rows(run)) == 1


def test_a_callback_that_returns_no_array(small: Small) -> None:
    for value, words in (
        ([[1.0], [2.0, 3.0]], "values of stream 'data' have uneven lengths"),
        (None, r"takes an array of shape \(4,\)"),
        (["a"] * 4, "Expected numbers for"),
    ):
        with small.engine(StreamCopyIn("data", small.x)) as engine:
            engine.connect_stream("data", lambda given=value: given)
            with pytest.raises((BadGraph, BadInput), match=words):
                engine.run()


def test_a_printer_that_raises(small: Small) -> None:
    with small.engine(PrintTensor(small.x, "x")) as engine:
        engine.print_line = failing
        with pytest.raises(CallbackFailed, match="function print_line of the engine raised"):
            engine.run()


def test_a_program_that_ends_in_an_error(small: Small) -> None:
    with small.engine(ErrorProgram("too hot")) as engine, pytest.raises(ProgramError):
        engine.run()
    assert small.told() == ("program_error", "A run of program 0 failed and has no trace: too hot")


def test_an_interruption_is_noted(small: Small) -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    with small.engine(StreamCopyIn("data", small.x)) as engine:
        engine.connect_stream("data", interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.run()
    assert small.told(State.ENDED_EARLY)[0] == "interrupted"


def test_a_kernel_that_raises(small: Small) -> None:
    with small.engine(small.compute(odd)) as engine, pytest.raises(KernelFailed) as caught:
        engine.run()
    assert caught.value.code == "kernel_failed"
    assert isinstance(caught.value.__cause__, ValueError)
    where = ("kernel of odd raised ValueError: this vertex cannot be", "compute set 'settle'")
    assert is_one_sentence(caught.value, *where)
    assert small.told()[0] == "kernel_failed"


@pytest.mark.skipif(
    bool(vars(numba.config)["DISABLE_JIT"]), reason="plain Python runs them: nothing is compiled"
)
@pytest.mark.parametrize("function", [importing, of_no_type])
def test_a_kernel_that_cannot_be_compiled(small: Small, function: Any) -> None:
    with small.engine(small.compute(function)) as engine, pytest.raises(BadGraph) as caught:
        engine.load()
    words = f"Cannot compile the kernel of {function.__name__}"
    assert is_one_sentence(caught.value, words)
    assert caught.value.__cause__ is not None
    code, message = small.told()
    assert code == "bad_graph"
    assert message.startswith("Loading the program failed and has no trace")


def test_a_closed_engine(small: Small) -> None:
    buffer = small.graph.add_remote_buffer("rows", "float32", 4)
    tensor = small.graph.add_variable("float32", (4,), "other")
    small.graph.map_linearly(tensor)
    with small.engine(
        Sequence("s", [Copy(small.x, tensor), StreamCopyOut(tensor, "out")])
    ) as engine:
        engine.write_tensor(small.x, [1, 2, 3, 4])
        engine.run()
    calls: list[Callable[[], Any]] = [
        engine.run,
        engine.load,
        lambda: engine.read_tensor(tensor),
        lambda: engine.write_tensor(tensor, np.zeros(4)),
        lambda: engine.read_remote(buffer),
        lambda: engine.write_remote(buffer, np.zeros((1, 4))),
        lambda: engine.connect_stream("out", np.zeros(4)),
    ]
    for call in calls:
        with pytest.raises(EngineClosed, match=r"This engine is closed.*create another") as caught:
            call()
        assert caught.value.code == "engine_closed"
    engine.close()
    assert engine.output("out").tolist() == [1, 2, 3, 4]
    assert engine.timelines()[0].n_cycles > 0
    with engine.get_report() as report:
        assert len(report.rows(run)) == 1
        assert not report.rows(notice)


@pytest.mark.parametrize("asked", ["run", "close"])
def test_a_function_that_the_engine_calls_cannot_ask_it_to_run_or_close(asked: str) -> None:
    graph, x, y = two_variables()
    program = Sequence("", [StreamCopyIn("x", x), Copy(x, y), StreamCopyOut(y, "y")])
    with Engine(compile_programs(graph, [program]), resolve(environ={})) as device:

        def callback(*_: Any) -> Any:
            getattr(device, asked)()
            return np.zeros(4)

        for stream, peer in (("x", "y"), ("y", "x")):
            device.connect_stream(stream, callback)
            device.connect_stream(peer, np.zeros(4, np.float32))
            with pytest.raises(CallbackFailed) as failed:
                device.run()
            assert isinstance(failed.value.__cause__, EngineBusy)
            assert f"Cannot {asked} this engine from one of its own callbacks" in str(
                failed.value.__cause__
            )
        device.connect_stream("y", np.zeros(4, np.float32))
        device.run()  # it is as good as before


def test_threads_take_turns_at_an_engine() -> None:
    graph, x, y = two_variables()
    program = Sequence("", [StreamCopyIn("x", x), Copy(x, y), StreamCopyOut(y, "y")])
    inside, maximum = [0], [0]

    def feed() -> Any:
        inside[0] += 1
        maximum[0] = max(maximum[0], inside[0])
        time.sleep(0.002)
        return np.zeros(4)

    def take(_: Any) -> None:
        inside[0] -= 1

    with Engine(compile_programs(graph, [program]), resolve(environ={})) as device:
        device.connect_stream("x", feed)
        device.connect_stream("y", take)
        threads = [threading.Thread(target=device.run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (inside, maximum) == ([0], [1])


def test_a_removed_report_is_reported_as_lost(tmp_path: Path) -> None:
    graph, x, y = two_variables()
    requested = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path / "r")})
    options = resolve(environ={"POPLAR_ENGINE_OPTIONS": requested})
    with Engine(compile_programs(graph, [Copy(x, y)]), options) as device:
        device.run()
        shutil.rmtree(tmp_path / "r")
        device.run()
        with pytest.raises(BadInput, match="report of this engine was lost: The report"):
            device.get_report()


def two_variables() -> tuple[Graph, Any, Any]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    x, y = (graph.add_variable("float32", (4,), name) for name in "xy")
    for tensor in (x, y):
        graph.map_linearly(tensor)
    return graph, x, y
