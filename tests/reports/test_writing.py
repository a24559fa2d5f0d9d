import gc
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tilescope.reports import (
    NotAReport,
    ReportInUse,
    ReportNotFound,
    ReportNotWritable,
    ReportWriter,
    check_report,
    find_reports,
    open_report,
)
from tilescope.reports.schema import provenance

ROOT = Path(__file__).parents[2]

_ENDLESS = """
import sys
import numpy as np
from tilescope.reports import ReportWriter
from tilescope.reports.schema import provenance
print("up", flush=True)
while True:
    writer = ReportWriter.create(sys.argv[1])
    for number in range(int(sys.argv[2])):
        rows = [{"key": f"{number}.{i}", "value": "x" * 50} for i in range(50)]
        writer.add(provenance, rows)
        writer.append("trace.start_cycle", np.arange(5_000) * (number + 1))
        writer.pattern("liveness.pattern", np.full(16, number))
        writer.commit(f"run {number}")
        print(number, flush=True)
    writer.finish()
    print("finished", flush=True)
"""


def _start(script, *arguments, **options):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)


def _end(process):
    process.kill()
    process.stdout.read()


def _leftover(directory):
    (path,) = directory.glob("profile_*.pop")
    return path


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_every_commit_that_was_acknowledged(tmp_path, ends_by):
    generator = random.Random(int(ends_by))
    for attempt in range(4):
        directory = tmp_path / str(attempt)
        with _start(_ENDLESS, directory, 10**6) as process:
            n_wanted = generator.randrange(1, 60)
            acknowledged = [process.stdout.readline().strip() for _ in range(n_wanted)]
            time.sleep(generator.random() * 0.01)
            process.send_signal(ends_by)
            acknowledged += process.stdout.read().split()
        n_given = len([line for line in acknowledged if line.isdigit()])
        with open_report(directory) as report:
            assert not report.is_complete
            assert len(report.milestones) - 1 >= n_given
            n_kept = len(report.milestones) - 1
            assert len(report.table(provenance)["key"]) == 50 * n_kept
            starts = report.array("trace.start_cycle").read()
            expected = np.arange(5_000) * np.arange(1, n_kept + 1)[:, None]
            np.testing.assert_array_equal(starts, expected.ravel())
            assert report.array("liveness.pattern").shape[0] == n_kept
        assert {problem.code for problem in check_report(directory)} == {"disagreement"}
        (actual,) = find_reports([directory])
        assert not actual.is_complete_guess


def test_a_run_killed_at_its_start_or_end_leaves_a_valid_report(tmp_path):
    generator = random.Random(3)
    for attempt in range(6):
        directory = tmp_path / str(attempt)
        with _start(_ENDLESS, directory, 1) as process:  # it starts and finishes reports constantly
            assert process.stdout.readline() == "up\n"
            time.sleep(generator.random() * 0.2)
            process.kill()
            process.stdout.read()
        for actual in find_reports([directory]):
            problems = check_report(actual.path)
            assert {problem.code for problem in problems} <= {"disagreement", "not_a_report"}
            if actual.is_complete_guess:
                with open_report(actual.path) as report:
                    assert report.is_complete
        # No lock is left.
        with ReportWriter.create(directory) as writer:
            writer.finish()


def test_a_running_report_can_be_followed(tmp_path):
    with _start(_ENDLESS, tmp_path, 40) as process:
        assert process.stdout.readline() == "up\n"
        while process.stdout.readline() != "finished\n":
            pass  # from here on there is always a finished report, and usually one being written
        n_live = 0
        for _ in range(40):
            with open_report(tmp_path) as report:
                assert report.is_complete
            for actual in find_reports([tmp_path]):
                try:
                    report = open_report(actual.path)
                except (NotAReport, ReportNotFound):
                    continue  # just started, or just finished
                with report:
                    n_live += not report.is_complete
                    n_commits = sum(name.startswith("run") for name in report.milestones)
                    assert len(report.table(provenance)["key"]) == 50 * n_commits
                    assert len(report.array("trace.start_cycle").read()) == 5_000 * n_commits
        process.kill()
        process.stdout.read()
    assert n_live > 0


def test_a_new_run_keeps_what_a_killed_one_left(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
        left = writer.path
    with ReportWriter.create(tmp_path) as writer:
        writer.finish()
    assert sorted(tmp_path.iterdir()) == sorted([left, tmp_path / "profile.pop"])


def test_a_second_writer_is_rejected_at_once(tmp_path):
    with ReportWriter.create(tmp_path):
        with pytest.raises(ReportInUse) as caught:
            ReportWriter.create(tmp_path)
        script = (
            "import sys; from reports import *\n"
            "try: ReportWriter.create(sys.argv[1])\n"
            "except ReportInUse as error: print(error)"
        )
        with _start(script, tmp_path) as process:
            assert process.stdout.read().strip() == str(caught.value)
    assert str(tmp_path) in str(caught.value)
    ReportWriter.create(tmp_path).abandon()


def test_a_finished_report_is_one_file(tmp_path):
    for _ in range(3):
        with ReportWriter.create(tmp_path) as writer:
            writer.append("trace.step_id", np.arange(100_000))
            writer.finish()
        assert [file.name for file in tmp_path.iterdir()] == ["profile.pop"]


def test_the_previous_report_stays_until_the_next_is_finished(tmp_path):
    for value in ("first", "second"):
        with ReportWriter.create(tmp_path) as writer:
            writer.add(provenance, [{"key": "seed", "value": value}])
            if value == "second":
                with open_report(tmp_path) as report:
                    assert report.table(provenance)["value"] == ["first"]
            writer.finish()
    with open_report(tmp_path) as report:
        assert report.table(provenance)["value"] == ["second"]


def test_a_forgotten_writer_lets_go(tmp_path):
    writer = ReportWriter.create(tmp_path)
    writer.commit("compiled")
    del writer
    gc.collect()
    ReportWriter.create(tmp_path).abandon()


def test_nothing_is_added_after_the_end(tmp_path):
    writer = ReportWriter.create(tmp_path)
    writer.finish()
    writer.abandon()
    with pytest.raises(ValueError, match="finished or abandoned"):
        writer.commit("run")
    with pytest.raises(ValueError, match="finished or abandoned"):
        writer.finish()


def test_a_forked_child_cannot_harm_the_report(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        child = os.fork()
        if child == 0:  # in the child: try everything, then exit normally
            try:
                writer.commit("stolen")
            except ReportNotWritable:
                writer.abandon()
                writer.__del__()
                gc.collect()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with pytest.raises(ReportInUse):
            ReportWriter.create(tmp_path)
        writer.add(provenance, [{"key": "after", "value": "2"}])
        writer.finish()
    with open_report(tmp_path) as report:
        assert report.milestones == ["created", "compiled", "finished"]
        assert report.table(provenance)["key"] == ["seed", "after"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("/proc/version")])
def test_a_file_in_place_of_the_directory_is_one_sentence(tmp_path, make):
    position = tmp_path / "report"
    make(position)
    with pytest.raises(ReportNotWritable, match="Choose another directory") as caught:
        ReportWriter.create(position)
    assert str(position) in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_directory_that_takes_no_files_is_one_sentence():
    position = Path("/proc/self/task")  # nobody, not even root, can create files there
    with pytest.raises(ReportNotWritable, match="Cannot write the report into") as caught:
        ReportWriter.create(position)
    assert "\n" not in str(caught.value)


_FULL_DISK = """
import resource, sys
import numpy as np
from tilescope.reports import ReportNotWritable, ReportWriter
from tilescope.reports.schema import provenance
limit = int(sys.argv[2])
n_errors, n_done = 0, 0
writer = None
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
noise = np.random.default_rng(1)
try:
    writer = ReportWriter.create(sys.argv[1])
except ReportNotWritable as error:
    print("refused", error)
    sys.exit()
for number in range(60):
    try:
        writer.add(provenance, [{"key": f"{number}", "value": "x" * 500}])
        writer.append("trace.start_cycle", noise.integers(0, 2**40, 2_000))
        writer.commit("run")
        n_done += not writer.has_failed
    except ReportNotWritable as error:
        n_errors += 1
assert n_errors == 1, n_errors
try:
    writer.finish()
except ReportNotWritable as error:
    print("failed", n_done, error)
"""


@pytest.mark.parametrize("limit_bytes", [1_000, 20_000, 150_000, 200_000, 333_333, 480_000])
def test_a_full_disk_is_reported_once_and_keeps_committed_data(tmp_path, limit_bytes):
    with _start(_FULL_DISK, tmp_path / "r", limit_bytes) as process:
        outcome = process.stdout.read()
    assert process.returncode == 0
    assert outcome.count("\n") == 1
    assert "Cannot write the report into" in outcome
    if outcome.startswith("refused"):
        assert not (tmp_path / "r").exists()
        return
    n_done = int(outcome.split()[1])
    with open_report(_leftover(tmp_path / "r")) as report:
        assert len(report.table(provenance)["key"]) == n_done
        assert len(report.array("trace.start_cycle").read()) == 2_000 * n_done


def test_the_limits_above_reach_a_running_writer(tmp_path):
    # Validates the test above: at its largest limit, data was committed before the failure.
    with _start(_FULL_DISK, tmp_path / "r", 480_000) as process:
        assert int(process.stdout.read().split()[1]) > 5
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
