"""Traces of programs: what they hold, whatever threads, forks and ends there are."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.libpvti.traced import environment, records, run, traces

from tilescope.reports import State, check_report, open_report
from tilescope.reports.kind import Kind, report_kind
from tilescope.reports.schema import (
    host_heatmap,
    host_heatmap_column,
    host_label,
    host_sample,
    host_series,
    host_thread,
    provenance,
)
from tilescope.reports.schema.vocabulary import HOST_RECORDS
from tilescope.tracepoints import recording
from tilescope.tracepoints.options import TraceOptions
from tilescope.tracepoints.recorder import KIND_BITS

_EVERYTHING = """
import libpvti as pvti
channel = pvti.createTraceChannel("MNIST Application")
with pvti.Tracepoint(channel, "Epoch:0"):
    pvti.Tracepoint.begin(pvti.tracePoplar, "compile")
    pvti.Tracepoint.event(channel, "Epoch 0 begin")
    pvti.Tracepoint.end(pvti.tracePoplar, "compile")
    with pvti.Tracepoint(channel, "batch", pvti.createJsonMetadata('{"batch": 1}')):
        pass
graph = pvti.Graph("Accuracy", "%")
training, validation = graph.addSeries("Training"), graph.addSeries("Validation")
training.add(0.5)
validation.add(float("nan"))
training.add(float("inf"))
off = pvti.Graph("Off", "", False).addSeries("x")
off.add(1)
heat = pvti.HeatmapDouble("Gradients", [0.0, 1.0, 2.0], "size")
heat.add([0.5, 1.0, 2.0, 3.0, -1.0, float("nan")])
print(pvti.getCurrentTraceFilename())
"""


def test_a_trace_holds_what_was_recorded(tmp_path: Path) -> None:
    before = time.time_ns()
    printed = run(_EVERYTHING, tmp_path, {"enable": True, "directory": str(tmp_path / "traces")})
    (path,) = traces(tmp_path / "traces")
    assert printed.strip() == str(path)
    assert re.fullmatch(r"([A-Z][a-z]{2}_){2}(\d\d_){4}\d{4}_\w+_\d+\.pvti", path.name)
    assert check_report(path) == []
    with open_report(path) as report:
        assert report.is_complete
        assert report_kind(report) is Kind.HOST_TRACE
        app = "MNIST Application"
        assert records(report) == [
            ("MainThread", "begin", app, "Epoch:0"),
            ("MainThread", "begin", "Poplar", "compile"),
            ("MainThread", "mark", app, "Epoch 0 begin"),
            ("MainThread", "end", "Poplar", "compile"),
            ("MainThread", "begin", app, "batch"),
            ("MainThread", "end", app, "batch"),
            ("MainThread", "end", app, "Epoch:0"),
        ]
        assert ("batch", '{"batch": 1}') in report.rows(host_label, "label", "metadata")
        names = [("Accuracy", "%", "Training"), ("Accuracy", "%", "Validation")]
        assert report.rows(host_series, "graph", "unit", "name") == names
        samples = report.rows(host_sample, "host_series_id", "value")
        assert samples == [(0, 0.5), (1, None), (0, float("inf"))]
        ((name, unit, edges),) = report.rows(host_heatmap, "name", "unit", "edges")
        assert (name, unit) == ("Gradients", "size")
        assert np.frombuffer(edges, "<f8").tolist() == [0.0, 1.0, 2.0]
        ((counts,),) = report.rows(host_heatmap_column, "counts")
        assert np.frombuffer(counts, "<u4").tolist() == [1, 2]
        facts = dict(report.rows(provenance, "key", "value"))
        assert before <= int(facts["wall_origin_ns"]) <= time.time_ns()
        assert path.name.endswith(f"_{facts['wall_process_id']}.pvti")
        assert len(facts["wall_trace_id"]) == 16


@pytest.mark.parametrize(
    ("text", "is_traced"),
    [
        (None, False),
        ('{"enable":"false"}', False),
        ('{"enable":false}', False),
        ('{"enable":"true"}', True),
        ("yes please", True),
        ("", True),
        ("[]", True),
        ("{}", True),
        ('{"directory": 7, "channels": 3, "duration": "long"}', True),
    ],
)
def test_what_the_variable_asks_for(text: str | None, is_traced: bool) -> None:
    options = TraceOptions.of({} if text is None else {"PVTI_OPTIONS": text})
    assert options == (TraceOptions(Path()) if is_traced else None)


def test_options_name_folder_channels_and_duration() -> None:
    text = '{"directory": "out", "channels": ["a", " b "], "duration": 3}'
    options = TraceOptions.of({"PVTI_OPTIONS": text})
    assert options == TraceOptions(Path("out"), frozenset(("a", "b")), 3.0)
    assert TraceOptions.of({"PVTI_OPTIONS": '{"channels": "a,b"}'}) == TraceOptions(
        Path(), frozenset(("a", "b"))
    )


def test_nothing_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert run(_EVERYTHING, tmp_path, None).strip() == ""
    assert list(tmp_path.iterdir()) == []
    code = "import sys, libpvti; print(sorted({'numba', 'apsw', 'numpy'} & set(sys.modules)))"
    assert run(code, tmp_path, None).strip() == "[]"


_CHANNELS = """
import libpvti as pvti
a, b = pvti.createTraceChannel("a"), pvti.createTraceChannel("b")
assert pvti.createTraceChannel("a") is a
def mark(label):
    for channel in (a, b):
        pvti.Tracepoint.event(channel, label)
mark("1")
pvti.disableTraceChannel(a)
assert (pvti.checkTraceChannel(a), pvti.checkTraceChannel(b)) == (False, True)
assert pvti.listTraceChannel()[-2:] == [["a", False], ["b", True]]
mark("2")
pvti.enableTraceChannel(a)
mark("3")
pvti.closeTrace()
mark("4")
pvti.enableTraceChannel(a)
mark("5")
"""


@pytest.mark.parametrize(
    ("channels", "expected"), [([], "a1 b1 b2 a3 b3"), (["b"], "b1 b2 b3"), (["c"], "")]
)
def test_channels_are_chosen_by_options_and_by_the_program(
    tmp_path: Path, channels: list[str], expected: str
) -> None:
    run(_CHANNELS, tmp_path, {"channels": channels})
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        assert " ".join(channel + label for _, _, channel, label in records(report)) == expected


_INSTRUMENTED = """
import libpvti as pvti
channel = pvti.createTraceChannel("c")

@pvti.instrument_fn(channel)
def double(x, *, plus=0):
    "Doubles."
    return 2 * x + plus

class Model:
    @pvti.instrument_fn(channel)
    def run(self):
        raise ValueError("expected")
    def copy(self, x):
        return x
    @staticmethod
    def helper():
        return 3
    @classmethod
    def make(cls):
        return cls

@pvti.instrument_fn(channel)
class Loader:
    def __init__(self, n):
        self.n = n

assert double(2, plus=1) == 5
assert (double.__name__, double.__doc__) == ("double", "Doubles.")
model = Model()
pvti.instrument(model, ("copy", "helper"), channel)
assert (model.copy(7), model.helper()) == (7, 3)
pvti.instrument(Model, ["make", "helper"], channel)
assert (Model.make(), Model.helper(), Model().helper()) == (Model, 3, 3)
assert isinstance(Loader(2), Loader) and Loader(3).n == 3
try:
    model.run()
except ValueError:
    pass
try:
    pvti.instrument(model, ["nothing"], channel)
except AttributeError as error:
    print(error)
"""


def test_functions_methods_and_classes_are_instrumented(tmp_path: Path) -> None:
    printed = run(_INSTRUMENTED, tmp_path)
    assert printed.strip() == "Expected the name of a method of __main__.Model, got 'nothing'."
    assert run(_INSTRUMENTED, tmp_path, None) == printed
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        ends = [label for _, kind, _, label in records(report) if kind == "end"]
        counts = Counter(ends)
    assert counts == {
        "__main__.double": 1,
        "__main__.Model.copy": 1,
        "__main__.Model.helper": 3,
        "__main__.Model.make": 1,
        "__main__.Loader.__init__": 2,
        "__main__.Model.run": 1,
    }


_THREADS = """
import threading, libpvti as pvti
channel = pvti.createTraceChannel("c")
def work(number):
    for step in range(2_000):
        with pvti.Tracepoint(channel, f"{number} {step % 7}"):
            pvti.Tracepoint.event(channel, "mark")
threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(24)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_every_thread_has_its_records_in_order(tmp_path: Path) -> None:
    run(_THREADS, tmp_path)
    (path,) = traces(tmp_path)
    assert check_report(path) == []
    with open_report(path) as report:
        assert report.n_rows(host_thread) == 24
        by_thread: dict[str, list[tuple[str, str]]] = {}
        for thread, kind, _, label in records(report):
            by_thread.setdefault(thread, []).append((kind, label))
    for number in range(24):
        expected = []
        for step in range(2_000):
            label = f"{number} {step % 7}"
            expected += [("begin", label), ("mark", "mark"), ("end", label)]
        assert by_thread[f"worker {number}"] == expected


_FORKS = """
import multiprocessing, os, libpvti as pvti
channel = pvti.createTraceChannel("c")
def child(name):
    with pvti.Tracepoint(channel, name):
        pass
with pvti.Tracepoint(channel, "parent"):
    with pvti.Tracepoint(channel, "open over the fork"):
        number = os.fork()
    if number == 0:
        child("forked")
        pvti.closeTrace()
        os._exit(0)
os.waitpid(number, 0)
silent = os.fork()
if silent == 0:
    os._exit(0)
os.waitpid(silent, 0)
for method in ("fork", "spawn"):
    process = multiprocessing.get_context(method).Process(target=child, args=(method,))
    if __name__ == "__main__":
        process.start()
        process.join()
"""


@pytest.mark.filterwarnings("ignore")
def test_every_process_writes_a_trace_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_FORKS)
    subprocess.run(
        [sys.executable, "program.py"], env=environment("{}"), cwd=tmp_path, check=True, timeout=60
    )
    found = {}
    for path in traces(tmp_path):
        with open_report(path) as report:
            assert report.is_complete, path
            assert check_report(path) == []
            facts = dict(report.rows(provenance, "key", "value"))
            key = tuple(label for _, kind, _, label in records(report) if kind == "begin")
            found[key] = facts["wall_trace_id"], facts["wall_process_id"]
    # A process of multiprocessing that is spawned runs the module anew, and its tracepoints too.
    assert ("forked",) in found
    assert ("fork",) in found
    assert any("spawn" in key for key in found)
    assert ("parent", "open over the fork") in found
    assert len({identity for identity, _ in found.values()}) == len(found)
    assert len({number for _, number in found.values()}) == len(found)


_ENDLESS = """
import sys, time, libpvti as pvti
channel = pvti.createTraceChannel("c")
pvti.Tracepoint.begin(channel, "never ends")
number = 0
while True:
    with pvti.Tracepoint(channel, "step"):
        number += 1
    pvti.Tracepoint.event(channel, f"at {time.time_ns()}")
    print(time.time_ns(), flush=True)
    time.sleep(0.0005)
"""


def _endings(folder: Path, ends_by: signal.Signals, seconds: float) -> tuple[int, Path]:
    """Run a program until a signal ends it; return its last time, and its trace."""
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS],
        env=environment("{}"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(ends_by)
        last = int(process.stdout.read().split()[-1])
    (path,) = traces(folder)
    return last, path


@pytest.mark.parametrize(
    ("ends_by", "state"),
    [
        (signal.SIGKILL, State.ENDED_EARLY),
        (signal.SIGTERM, State.ENDED_EARLY),
        (signal.SIGINT, State.COMPLETE),
    ],
)
def test_a_killed_program_leaves_all_but_the_last_second(
    tmp_path: Path, ends_by: signal.Signals, state: State
) -> None:
    for number, seconds in enumerate((0.1, 1.1) if ends_by == signal.SIGKILL else (0.6,)):
        folder = tmp_path / str(number)
        folder.mkdir()
        last, path = _endings(folder, ends_by, seconds)
        with open_report(path) as report:
            report.verify()
            assert report.state.state is state
            kept = records(report)
        if seconds > 1:
            assert kept[0] == ("MainThread", "begin", "c", "never ends")
        marks = [int(label.split()[1]) for _, kind, _, label in kept if kind == "mark"]
        if marks:
            assert last - marks[-1] < 1e9


_BUSY = """
import libpvti as pvti
channel = pvti.createTraceChannel("c")
number = 0
pvti.Tracepoint.event(channel, "x")
print("up", flush=True)
try:
    while True:
        pvti.Tracepoint.event(channel, "x")
        number += 1
except KeyboardInterrupt:
    print(number)
"""


def test_an_interrupt_in_the_middle_of_recording_costs_nothing(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", _BUSY],
            env=environment("{}"),
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.15 + 0.07 * number)
            process.send_signal(signal.SIGINT)
            n_events = int(process.stdout.read())
        (path,) = traces(folder)
        with open_report(path) as report:
            assert report.is_complete
            n_records = len(report.array("host_event.kind").read())
        assert n_records - n_events in (1, 2)


def test_a_trace_is_read_while_it_is_written(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS],
        env=environment("{}"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (path,) = traces(tmp_path)
        n_records = []
        for _ in range(2):
            time.sleep(0.55)
            with open_report(path) as report:
                report.verify()
                assert report.state.state is State.RUNNING
                n_records.append(len(records(report)))
        process.kill()
        process.stdout.read()
    assert n_records == sorted(set(n_records))


def test_a_trace_ends_after_its_duration(tmp_path: Path) -> None:
    run(
        """
import time, libpvti as pvti
channel = pvti.createTraceChannel("c")
for number in range(6):
    pvti.Tracepoint.event(channel, str(number))
    time.sleep(0.1)
""",
        tmp_path,
        {"duration": 0.25},
    )
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        assert report.is_complete
        assert 1 <= len(records(report)) <= 4


def test_a_program_goes_on_without_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = _EVERYTHING + "\nprint('done')"
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=environment({"directory": str(tmp_path / "file" / "folder")}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["done"]
    assert process.stderr.startswith("warning: nothing is traced. Cannot write a trace into")
    assert len(process.stderr.splitlines()) == 1


_FULL = """
import resource, signal, libpvti as pvti
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
channel = pvti.createTraceChannel("c")
pvti.Tracepoint.event(channel, "first")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
import random
for number in range(200_000):
    pvti.Tracepoint.event(channel, str(random.random()))
print("done")
"""


def test_a_full_disk_ends_the_trace_and_not_the_program(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", _FULL],
        env=environment("{}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "done\n"
    assert process.stderr.startswith("warning: the trace of this program ends here.")
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        report.verify()
        assert report.state.state is State.ENDED_EARLY


def test_threads_and_labels_that_come_and_go_take_no_memory(tmp_path: Path) -> None:
    printed = run(
        """
import resource, threading, libpvti as pvti
channel = pvti.createTraceChannel("c")
def work(number):
    for step in range(200):
        pvti.Tracepoint.event(channel, f"label {number} {step}")
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for number in range(600):
    thread = threading.Thread(target=work, args=(number,))
    thread.start()
    thread.join()
    if number == 200:
        first = peak()
print(peak() - first)
""",
        tmp_path,
    )
    assert float(printed) < 25  # MiB; 80,000 labels
    (path,) = traces(tmp_path)
    with open_report(path) as report:
        assert report.n_rows(host_label) == 120_000
        assert report.n_rows(host_thread) == 600


_WRONG = {
    "pvti.createTraceChannel(3)": "Expected a string for 'name', got 3.",
    "pvti.Tracepoint(c, 3)": "Expected a string for 'label', got 3.",
    "pvti.Tracepoint(c, 'x', '{')": "Expected JSON for 'metadata', got '{'.",
    "pvti.Graph('g').addSeries('s').add('x')": "Expected a number for 'value', got 'x'.",
    "pvti.HeatmapDouble('h', [1, 1])": "Expected at least two ascending numbers for 'edges'.",
    "pvti.HeatmapDouble('h', [1])": "Expected at least two ascending numbers for 'edges'.",
    "pvti.HeatmapDouble('h', [0, 1]).add(['x'])": "Expected numbers for 'values', got ['x'].",
}


def test_wrong_arguments_are_explained(tmp_path: Path) -> None:
    calls = [
        f"try:\n    {call}\nexcept (TypeError, ValueError) as error:\n    print(error)"
        for call in _WRONG
    ]
    start = ["import libpvti as pvti", "c = pvti.createTraceChannel('c')"]
    assert run("\n".join(start + calls), tmp_path).splitlines() == list(_WRONG.values())


def test_names_of_traces_are_unique(tmp_path: Path) -> None:
    run(
        """
from pathlib import Path
from tilescope.tracepoints.recorder import _create
writers = [_create(Path()) for _ in range(20)]
assert len({writer.path for writer in writers}) == 20
""",
        tmp_path,
        None,
    )


def test_kinds_of_records_are_those_of_the_report() -> None:
    assert (HOST_RECORDS["end"], HOST_RECORDS["mark"]) == (recording._END, recording._MARK)
    assert max(HOST_RECORDS.values()) < 1 << KIND_BITS
