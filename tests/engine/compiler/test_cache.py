"""The executable cache: hits equal compiled executables, and invalid entries are harmless."""

from __future__ import annotations

import functools
import logging
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.compiler.entries import decode

from tilescope import engine
from tilescope.analyser.diff.identity import unequal_data
from tilescope.engine.compiler.cache import plans, store
from tilescope.engine.compiler.executable.container import encode
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.executable.versions import engine_versions
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ROOT, Graph, Tensor, blocks
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.operators import OPERATORS
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    If,
    Program,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.reports import open_report
from tilescope.reports.schema import provenance, wall_clock

N_TILES = 4


class Case:
    """A program on two IPUs with copies, a loop, a decision, a function and a constant."""

    def __init__(
        self, weight: float = 2.0, n_ipus: int = 2, sync_cycles: int | None = None
    ) -> None:
        machine = engine.load_machine("gc200", tiles_per_ipu=N_TILES, n_ipus=n_ipus)
        if sync_cycles is not None:
            machine = replace(machine, sync_cycles=sync_cycles)
        self.graph = Graph(machine)
        root = Sequence("program")
        self.x = self.variable("x", [0, 16], [0, 1])
        self.flag = self.graph.add_variable("int32", (1,), "flag")
        self.graph.set_tile_mapping(self.flag, [0], [1])
        root.add(StreamCopyIn("x", self.x), StreamCopyIn("flag", self.flag))
        inside = Builder(self.graph, Sequence("body"), ROOT)
        weights = self.graph.add_constant(np.full(32, weight, np.float32), "weights")
        self.graph.map_linearly(weights, first=2)
        built = binary(inside, "multiply", self.x, weights, (32,))
        inside.sequence.add(Copy(built.reverse(0), self.x))
        scale = Function(inside.sequence, "scale")
        root.add(Repeat(2, Call(scale), "loop"))
        last = Builder(self.graph, Sequence("last"), ROOT)
        total = reduce(last, "sum", self.x.reshape(4, 8), (0,))
        root.add(If(self.flag, Call(scale), Sequence("nothing"), "decide"))
        root.add(last.sequence, StreamCopyOut(total, "total"))
        self.root = root

    def variable(self, name: str, starts: list[int], tiles: list[int]) -> Tensor:
        tensor = self.graph.add_variable("float32", (32,), name)
        self.graph.set_tile_mapping(tensor, starts, tiles)
        return tensor

    def compile(self, directory: Path | str | None, **options: Any) -> Executable:
        return engine.compile_programs(
            self.graph, [self.root], cache_directory=directory, **options
        )


def ran(executable: Executable, report: Path) -> NDArray[Any]:
    """Run an executable, write its report, return its output."""
    options = engine.resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(report)}
    )
    with engine.Engine(executable, options) as device:
        device.connect_stream("x", np.arange(32, dtype=np.float32))
        device.connect_stream("flag", np.array([1], np.int32))
        device.run()
        return device.output("total")


def entry(directory: Path) -> Path:
    """Return the one file of a cache."""
    (actual,) = directory.iterdir()
    return actual


@pytest.fixture
def warnings_of(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that returns the warnings logged since its last call."""

    def take() -> list[str]:
        results = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        caplog.clear()
        return results

    return take


@pytest.fixture(autouse=True)
def _nothing_warned() -> Iterator[None]:
    """Reset the warned directories before every test."""
    yield
    store._warned.clear()


def test_what_is_taken_from_the_cache_is_what_was_compiled(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    results = [Case().compile(d) for d in (None, directory, directory)]
    assert [executable.record.cache for executable in results] == ["off", "miss", "hit"]
    outputs = [ran(executable, tmp_path / str(i)) for i, executable in enumerate(results)]
    expected = np.arange(32, dtype=np.float32)[::-1] * 8  # rotated three times, doubled
    for output in outputs:
        np.testing.assert_array_equal(output, expected.reshape(4, 8).sum(axis=0, keepdims=True))
    for i in (1, 2):
        with (
            open_report(tmp_path / "0" / "profile.pop") as base,
            open_report(tmp_path / str(i) / "profile.pop") as new,
        ):
            assert unequal_data(base, new) == ()
            facts = dict(new.rows(provenance, "key", "value"))
            assert facts["wall_compile_cache"] == results[i].record.cache
            durations = dict(new.rows(wall_clock, "event", "wall_duration_us"))
            duration = durations["compile"]
            assert duration == results[i].record.wall_duration_us > 0
    always = [executable.memory.is_always_live.tolist() for executable in results]
    assert always[0] == always[1] == always[2]


def test_other_weights_are_a_hit_and_stay_their_own(tmp_path: Path) -> None:
    assert Case(weight=2).compile(tmp_path / "cache").record.cache == "miss"
    executable = Case(weight=3).compile(tmp_path / "cache")
    assert executable.record.cache == "hit"
    expected = np.arange(32, dtype=np.float32)[::-1] * 27
    np.testing.assert_array_equal(
        ran(executable, tmp_path / "r"), expected.reshape(4, 8).sum(axis=0, keepdims=True)
    )


def _mapped_otherwise(case: Case) -> None:
    case.graph.set_tile_mapping(case.x, [0, 15], [0, 1])


def _renamed(case: Case) -> None:
    case.x.variable.name = "y"


def _run_once_more(case: Case) -> None:
    case.root.add(case.root.children[2])


def _read_in_another_order(case: Case) -> None:
    first = case.graph.compute_sets[0]
    turned = {
        name: replace(regions, start=regions.start[::-1].copy(), size=regions.size[::-1].copy())
        for name, regions in first.batches[0].fields.items()
    }
    first.batches = [replace(first.batches[0], fields=turned), *first.batches[1:]]


def _with_another_buffer(case: Case) -> None:
    case.graph.add_remote_buffer("rows", "float32", 4)


@pytest.mark.parametrize(
    "change",
    [
        _mapped_otherwise,
        _renamed,
        _run_once_more,
        _read_in_another_order,
        _with_another_buffer,
    ],
)
def test_another_program_is_compiled(tmp_path: Path, change: Callable[[Case], None]) -> None:
    assert Case().compile(tmp_path).record.cache == "miss"
    case = Case()
    change(case)
    assert case.compile(tmp_path).record.cache == "miss"
    assert Case().compile(tmp_path).record.cache == "hit"


def test_another_machine_or_option_is_compiled(tmp_path: Path) -> None:
    assert Case().compile(tmp_path).record.cache == "miss"
    assert Case(sync_cycles=99).compile(tmp_path).record.cache == "miss"
    assert Case(n_ipus=3).compile(tmp_path).record.cache == "miss"
    assert Case().compile(tmp_path, is_instrumented=False).record.cache == "miss"
    assert Case().compile(tmp_path, is_checked=True).record.cache == "miss"
    assert Case().compile(tmp_path).record.cache == "hit"


def with_own_law(cycles: int, directory: Path) -> Executable:
    """Compile one vertex whose law returns `cycles`; the law's source is always the same."""

    def law(batch: Any, _machine: Any) -> NDArray[np.int64]:
        return np.full(batch.n_vertices, cycles)

    @engine.codelet(engine.Field("x", "inout"), law=law, code_bytes=8)
    def touch(x):
        x[0] += 1

    graph = Graph(engine.load_machine("gc200", tiles_per_ipu=N_TILES))
    x = graph.add_variable("float32", (4,), "x")
    graph.map_linearly(x)
    compute_set = graph.add_compute_set("touch")
    regions = blocks(x.variable, np.arange(4), [1], [1], 4)
    graph.add_vertices(compute_set, touch, range(4), {"x": regions})
    return engine.compile_programs(graph, [Execute(compute_set)], cache_directory=directory)


def test_a_changed_law_is_detected(tmp_path: Path) -> None:
    first = with_own_law(10, tmp_path)
    again = with_own_law(10, tmp_path)
    peer = with_own_law(11, tmp_path)
    assert [e.record.cache for e in (first, again, peer)] == ["miss", "hit", "miss"]
    assert [int(e.steps[0].cost.cycles[0]) for e in (first, again, peer)] == [60, 60, 66]


def test_another_version_of_the_engine_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilescope.engine.compiler.cache import description

    assert Case().compile(tmp_path).record.cache == "miss"
    newer = {**engine_versions(), "sources": "0" * 64}
    monkeypatch.setattr(description, "engine_versions", lambda: newer)
    assert Case().compile(tmp_path).record.cache == "miss"


def test_a_damaged_file_is_compiled_anew_and_replaced(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    expected = Case().compile(tmp_path).memory.including_gaps
    path = entry(tmp_path)
    full = path.read_bytes()
    random = np.random.default_rng(5)
    damaged = [b"", b"x", full[:8], full[:40], full[:-1], full + b"x", full[:-1000], b"x" * 99]
    for position in (0, 7, 8, 24, 27, 32, *random.integers(0, len(full), 60).tolist()):
        flipped = bytearray(full)
        flipped[position] ^= 1 << int(random.integers(8))
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        executable = Case().compile(tmp_path)
        assert executable.record.cache == "miss"
        np.testing.assert_array_equal(executable.memory.including_gaps, expected)
        (text,) = warnings_of()
        assert str(path) in text
        assert "is not usable and is replaced: " in text
        assert path.read_bytes() == full
    assert Case().compile(tmp_path).record.cache == "hit"
    assert warnings_of() == []


def test_a_false_hit_is_detected_and_compiled(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    Case(sync_cycles=99).compile(tmp_path)
    peer = entry(tmp_path)
    expected = Case().compile(tmp_path).steps[0].cost.cycles
    (path,) = set(tmp_path.iterdir()) - {peer}
    shutil.copy(peer, path)
    executable = Case().compile(tmp_path)
    assert executable.record.cache == "miss"
    np.testing.assert_array_equal(executable.steps[0].cost.cycles, expected)
    (text,) = warnings_of()
    assert "false hit" in text
    assert Case().compile(tmp_path).record.cache == "hit"


def test_something_else_in_the_place_of_a_file(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    Case().compile(tmp_path)
    path = entry(tmp_path)
    path.unlink()
    os.mkfifo(path)  # would block a reader
    assert Case().compile(tmp_path).record.cache == "miss"
    assert "it is not a file" in warnings_of()[0]
    path.unlink()
    path.mkdir()
    for _ in range(2):
        assert Case().compile(tmp_path).record.cache == "miss"
    text = warnings_of()
    assert len([line for line in text if "it is not a file" in line]) == 2
    assert len([line for line in text if "cannot write" in line]) == 1


def test_an_unwritable_directory_warns_once(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for directory in (file, file / "below"):
        for _ in range(2):
            assert Case().compile(directory).record.cache == "miss"
        assert warnings_of() == [
            f"warning: cannot write to the cache directory {directory}"
            " (a file has its name): continuing without it"
        ]


def test_a_directory_may_be_a_text(tmp_path: Path) -> None:
    assert Case().compile(tmp_path).record.cache == "miss"
    assert Case().compile(str(tmp_path)).record.cache == "hit"


def test_a_full_disk_warns_and_leaves_nothing_behind(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        assert Case().compile(tmp_path).record.cache == "miss"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    assert "File too large" in warnings_of()[0]


def test_what_a_killed_process_left_is_swept_up(tmp_path: Path) -> None:
    old, young = tmp_path / ".a.1.b.part", tmp_path / ".a.2.b.part"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (0, time.time() - 7_200))
    Case().compile(tmp_path)
    assert not old.exists()
    assert young.exists()


def script(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process that can import this test's program."""
    head = (
        "import sys\nfrom pathlib import Path\nfrom tests.engine.compiler.test_cache import Case\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + text, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_come_at_once(tmp_path: Path) -> None:
    text = "print(Case().compile(Path(sys.argv[1])).record.cache)"
    processes = [script(text, tmp_path) for _ in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        assert out in ("miss\n", "hit\n")
    assert entry(tmp_path).suffix == ".executable"
    assert Case().compile(tmp_path).record.cache == "hit"


#: Two processes delete and write constantly and are killed; a third must never fail.
_KILLED = """
import os, random, signal, time

def write_for_ever(directory):
    while True:
        for path in directory.glob("*.executable"):
            path.unlink(missing_ok=True)
        Case().compile(directory)

directory = Path(sys.argv[1])
for number in range(25):
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            write_for_ever(directory)
        children.append(child)
    end = time.monotonic() + random.Random(number).uniform(0.01, 0.2)
    while time.monotonic() < end:
        Case().compile(directory)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    Case().compile(directory)
    assert Case().compile(directory).record.cache == "hit"
"""


@pytest.mark.slow
def test_processes_killed_while_they_write(tmp_path: Path) -> None:
    process = script(_KILLED, tmp_path)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert len(list(tmp_path.glob("*.executable"))) == 1  # beside a partially written file


def test_the_environment_turns_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Case().compile(None).record.cache == "off"
    monkeypatch.setenv("POPART_CACHE_DIR", str(tmp_path))
    assert Case().compile(None).record.cache == "miss"
    assert Case().compile(None).record.cache == "hit"
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"enableEngineCaching": "false"}')
    assert Case().compile(None).record.cache == "off"
    assert entry(tmp_path).suffix == ".executable"


def network() -> Model:
    """Return three convolutions that differ in input layout or shape."""
    random = np.random.default_rng(3)
    builder = IrBuilder("network")
    value = builder.input("x", (1, 8, 10, 10), "float32")
    window: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding_before": (1, 1)}
    for i, channels in enumerate((8, 8, 4)):
        weights = random.standard_normal((channels, 8, 3, 3)).astype(np.float32)
        value = builder.emit(
            OPERATORS["convolution"],
            [value, builder.constant(weights, f"w{i}")],
            name=f"layer {i}",
            source="Conv",
            kernel=(3, 3),
            padding_after=(1, 1),
            groups=1,
            **window,
        )
    return builder.finish([("y", value)])


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the operations that are planned from now on."""
    names: list[str] = []

    @functools.wraps(plan_convolution)
    def counted(name: str, *args: Any) -> Plan:
        names.append(name)
        return plan_convolution(name, *args)

    monkeypatch.setattr(
        "tilescope.engine.library.poplin.convolution_request.plan_convolution", counted
    )
    return names


def compile_and_report(directory: Path | None, report: Path) -> CompiledModel:
    """Compile the network and write its report."""
    machine = engine.load_machine("gc200", tiles_per_ipu=32)
    compiled = engine.compile_model(network(), machine, cache_directory=directory)
    options = engine.resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(report)}
    )
    with engine.Engine(compiled.executable, options) as device:
        compiled.run(device, compiled.random_inputs(0))
    return compiled


def forget_programs(folder: Path) -> None:
    """Remove stored programs and lowered operations: their models are compiled again."""
    for kind in ("program", "weights", "lowered", "fragments", "costs"):
        for path in folder.glob(f"*.{kind}"):
            path.unlink()


def test_plans_are_taken_from_the_cache(
    tmp_path: Path, warnings_of: Callable[[], list[str]], planned: list[str]
) -> None:
    directory = tmp_path / "cache"
    plain = compile_and_report(None, tmp_path / "plain")
    planned.clear()
    cold = compile_and_report(directory, tmp_path / "cold")
    assert len(planned) == 3
    planned.clear()
    forget_programs(directory)
    warm = compile_and_report(directory, tmp_path / "warm")
    assert (planned, warm.executable.record.cache) == ([], "miss")
    assert plain.executable.plans == cold.executable.plans == warm.executable.plans
    names = [plan.name for plan in warm.executable.plans]
    assert names == [f"layer {i}/convolution" for i in range(3)]
    for name in ("cold", "warm"):
        with (
            open_report(tmp_path / "plain" / "profile.pop") as base,
            open_report(tmp_path / name / "profile.pop") as new,
        ):
            assert unequal_data(base, new) == ()
    first, second, _ = sorted(directory.glob("*.plan"))
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    shutil.copy(first, second)
    forget_programs(directory)
    again = compile_and_report(directory, tmp_path / "again")
    assert len(planned) == 2
    assert again.executable.plans == plain.executable.plans
    text = warnings_of()
    assert len(text) == 2
    assert all("cached plan" in line and "is replaced" in line for line in text)
    planned.clear()
    compile_and_report(directory, tmp_path / "whole")
    assert (planned, warnings_of()) == ([], [])


def test_plans_of_an_earlier_compilation_are_kept_in_the_directory_of_a_later_one(
    tmp_path: Path, planned: list[str]
) -> None:
    machine = engine.load_machine("gc200", tiles_per_ipu=32)
    first = engine.compile_model(network(), machine)
    directory = tmp_path / "cache"
    engine.compile_model(network(), machine, cache_directory=directory)
    selected = {path: path.stat().st_mtime_ns for path in directory.glob("*.plan")}
    assert len(selected) == 3
    planned.clear()
    again = engine.compile_model(network(), machine, cache_directory=directory)
    assert {path: path.stat().st_mtime_ns for path in directory.glob("*.plan")} == selected
    assert planned == []
    assert again.executable.plans == first.executable.plans


def test_plans_are_kept_beside_the_kernels_where_no_executable_is_cached(
    tmp_path: Path,
    warnings_of: Callable[[], list[str]],
    planned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "plans"
    monkeypatch.setattr(plans, "memo_folder", lambda: folder)
    cold = compile_and_report(None, tmp_path / "cold")
    assert len(planned) == len(list(folder.glob("*.plan"))) == 3
    planned.clear()
    forget_programs(folder / "lowered")
    warm = compile_and_report(None, tmp_path / "warm")
    assert (planned, warm.executable.record.cache) == ([], "off")
    assert warm.executable.plans == cold.executable.plans
    with (
        open_report(tmp_path / "cold" / "profile.pop") as base,
        open_report(tmp_path / "warm" / "profile.pop") as new,
    ):
        assert unequal_data(base, new) == ()
    assert warnings_of() == []
    first, second, _ = sorted(folder.glob("*.plan"))
    first.write_bytes(b"")  # damaged
    shutil.copy(first, second)
    forget_programs(folder / "lowered")
    again = compile_and_report(None, tmp_path / "again")
    assert again.executable.plans == cold.executable.plans
    assert len(planned) == 2


def test_the_oldest_plans_beside_the_kernels_are_removed(
    tmp_path: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plans"
    folder.mkdir()
    for age in range(5):
        (folder / f"{age}.plan").touch()
        os.utime(folder / f"{age}.plan", (100 - age, 100 - age))
    monkeypatch.setattr(plans, "memo_folder", lambda: folder)
    monkeypatch.setattr(plans, "_MOST_PLANS", 4)
    compile_and_report(None, tmp_path / "r")
    selected = {path.name for path in folder.glob("*.plan")}
    assert len(planned) == 3
    assert selected >= {"0.plan", "1.plan", "2.plan"}
    assert not selected & {"3.plan", "4.plan"}


def test_a_folder_of_kernels_that_is_not_writable_is_no_reason_to_warn(
    tmp_path: Path,
    warnings_of: Callable[[], list[str]],
    planned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "plans").write_text("a file has its name")
    monkeypatch.setattr(plans, "memo_folder", lambda: tmp_path / "plans")
    compile_and_report(None, tmp_path / "r")
    assert (len(planned), warnings_of()) == (3, [])


def test_two_threads_with_directories_of_their_own_do_not_meet(
    tmp_path: Path, planned: list[str]
) -> None:
    machine = engine.load_machine("gc200", tiles_per_ipu=32)

    def compiled(name: str) -> CompiledModel:
        return engine.compile_model(network(), machine, cache_directory=tmp_path / name)

    def files(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    alone = compiled("alone")
    forget_programs(tmp_path / "alone")
    expected = files("alone")
    suffixes = [".executable", *[".plan"] * 3]
    assert sorted(Path(name).suffix for name in expected) == suffixes
    # A directory with other plans only affects the compilation that uses it.
    shutil.copytree(tmp_path / "alone", tmp_path / "odd")
    for path in (tmp_path / "odd").glob("*.plan"):
        with path.open("rb") as file:
            facts, arrays = decode(file, path.stat().st_size)
        path.write_bytes(encode({**facts, "bound": "odd"}, arrays))
    planned.clear()
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            outlier, first, second = pool.map(compiled, ("odd", "one", "other"))
        assert {plan.bound for plan in outlier.executable.plans} == {"odd"}
        forget_programs(tmp_path / "odd")
        assert first.executable.plans == second.executable.plans == alone.executable.plans
        for name in ("one", "other"):
            forget_programs(tmp_path / name)
        assert files("one") == files("other") == expected
        assert len(planned) == 6
        planned.clear()
        for name in ("one", "other"):
            shutil.rmtree(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "odd"]


def test_a_plan_of_another_form_is_made_anew(
    tmp_path: Path, warnings_of: Callable[[], list[str]], planned: list[str]
) -> None:
    compile_and_report(tmp_path / "cache", tmp_path / "r")
    for path in (tmp_path / "cache").glob("*.plan"):
        with path.open("rb") as file:
            facts, arrays = decode(file, path.stat().st_size)
        del facts["bound"]
        path.write_bytes(encode(facts, arrays))
    planned.clear()
    forget_programs(tmp_path / "cache")
    compile_and_report(tmp_path / "cache", tmp_path / "r")
    assert len(planned) == 3
    assert all("it is not a plan" in line for line in warnings_of())


def test_a_program_with_something_unknown_in_it_is_not_cached(
    tmp_path: Path, warnings_of: Callable[[], list[str]]
) -> None:
    class Odd(Program):
        def __init__(self) -> None:
            self.debug = ROOT

    case = Case()
    case.root.add(Odd())
    with pytest.raises(BadGraph, match="Expected a program, got Odd"):
        case.compile(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert warnings_of() == []
