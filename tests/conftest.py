"""Fixtures of all tests: catalogue models, Hypothesis profiles, and a clean environment."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.quick.choice import DURATIONS

# Examples can be slow on shared cores; a deadline would make tests flaky.
settings.register_profile("fast", deadline=None, max_examples=50)
settings.register_profile(
    "deep", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that updates stored reports."""
    parser.addoption(
        "--update-golden", action="store_true", help="update the golden reports (tests/golden)"
    )


class _Durations:
    """Keeps the seconds that each test file took, for ``make quick``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Store what whole files took."""
        options = self._config.option
        is_part = options.keyword or any("::" in argument for argument in self._config.args)
        if is_part or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        cache = getattr(self._config, "cache", None)  # missing with -p no:cacheprovider
        if cache is None:
            return
        known = cache.get(DURATIONS, {})
        cache.set(DURATIONS, {**known, **{f: round(s, 2) for f, s in self._seconds.items()}})


def pytest_configure(config: pytest.Config) -> None:
    """Time the files where reports arrive: in the process that starts the others."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Durations(config))


# Tests keep tokens of servers, and what they learn of reports, elsewhere than their user.
_OWN = Path(tempfile.gettempdir()) / f"tilescope-tests-{os.getpid()}"
os.environ["XDG_STATE_HOME"] = str(_OWN)
os.environ["TILESCOPE_CATALOGUE_DIR"] = str(_OWN / "catalogue")
_OURS = (
    "POPLAR_ENGINE_OPTIONS",
    "POPLAR_TARGET_OPTIONS",
    "POPLAR_RUNTIME_OPTIONS",
    "POPXL_CACHE_DIR",
    "POPART_CACHE_DIR",
    "POPTORCH_CACHE_DIR",
    "PVTI_OPTIONS",
)


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the caller's environment variables from every test."""
    for name in _OURS:
        monkeypatch.delenv(name, raising=False)


_number = itertools.count()


@pytest.fixture(autouse=True)
def _no_plans_of_other_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Give every test an empty memo of plans: some change how the planner decides."""
    module = sys.modules.get("tilescope.engine.compiler.cache.plans")
    if module is not None:
        folder = tmp_path_factory.getbasetemp() / f"plans{next(_number)}"
        monkeypatch.setattr(module, "memo_folder", lambda: folder)


_DESCRIPTORS = Path("/proc/self/fd")
_O_PATH = getattr(os, "O_PATH", 0)


def _is_path_only(descriptor: str) -> bool:
    """Return whether a descriptor names a file only, as those of caches do: it holds no lock."""
    facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    (flags,) = [line.split()[1] for line in facts.splitlines() if line.startswith("flags:")]
    return bool(int(flags, 8) & _O_PATH)


def _held_locks() -> set[str]:
    """Return the directories that this process holds open, as a writer does to lock its own."""
    held = set()
    for descriptor in os.listdir(_DESCRIPTORS) if _DESCRIPTORS.is_dir() else []:
        try:
            target = os.readlink(_DESCRIPTORS / descriptor)
            if _is_path_only(descriptor):
                continue
        except OSError:
            continue
        if target.startswith("/") and not target.startswith("/proc") and os.path.isdir(target):
            held.add(target)
    return held


@pytest.fixture(autouse=True)
def _no_writer_left_over() -> Iterator[None]:
    """Fail a test that leaves a report's directory locked."""
    before = _held_locks()
    yield
    if _held_locks() - before:
        gc.collect()
        assert _held_locks() - before == set(), "close the writer"


@pytest.fixture(scope="session")
def catalogue_model() -> Callable[[str], Path]:
    """Return a function that finds a catalogue model in the user's cache, fetches it, or skips."""
    from tilescope.engine.errors import ModelNotAvailable
    from tilescope.engine.models import fetch

    def path_of(name: str) -> Path:
        try:
            return fetch(name)
        except ModelNotAvailable as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))

    return path_of


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the reports of `tests.analyser.pipelined.write_pipelines`."""
    from tests.analyser.pipelined import write_pipelines

    folder = tmp_path_factory.mktemp("pipelines")
    write_pipelines(folder)
    return folder
