"""Kernels compiled ahead are found by later processes, and a run on another processor says so."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilescope.engine.errors import BadInput
from tilescope.engine.host.jit import processor
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.session import warmup

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="compilation is disabled")

#: A warm-up of three kernels, one of which has no code: a function of bits on floats.
SCRIPT = """
from tilescope.engine.session import warmup

NAMES = ("popops::UnaryOp1D<relu>", "popops::UnaryOp1D<bitwise_not>", "poplar::Memcpy")

def few():
    return {name: kernel for name, kernel in every().items() if named(kernel) in NAMES
            and kernel.dtype == "float32"}

def named(kernel):
    from importlib import import_module
    from tilescope.engine.compiler.executable.codelet_place import codelets_of
    return list(codelets_of(import_module(kernel.module)))[kernel.place].name

if __name__ == "__main__":
    every = warmup._kernels
    warmup._kernels = few
    told = []
    for _ in range(2):
        done = warmup.warm_up(lambda *numbers: told.append(numbers), n_processes=2)
        print(done.n_compiled, done.n_kernels, done.processor, *told)
        told.clear()
    launchers = [kernel.launcher() for kernel in few().values()]
    print(len(launchers), sum(call.is_kept for call in launchers))
"""


@pytest.mark.slow
def test_kernels_are_compiled_in_processes_and_only_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environ = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_CPU_NAME": "nehalem",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    process = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == [
        "2 2 nehalem (1, 3) (2, 3) (3, 3)",
        "0 2 nehalem",
        "3 2",
    ]
    folders = list((tmp_path / "cache").iterdir())
    assert (folders[0] / "processor").read_text().startswith("nehalem\n")


def test_every_codelet_of_the_engine_is_warmed_up_on_float() -> None:
    kernels = warmup._kernels()
    assert len(kernels) > 500
    modules = {kernel.module.rpartition(".")[2] for kernel in kernels.values()}
    assert modules >= {"convolution", "reduce", "in_place", "ternary", "copy", "pool", "sort"}


def test_a_warm_up_that_cannot_write_says_where_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "kernels"
    monkeypatch.setattr(warmup, "cache_folder", lambda: folder)
    with pytest.raises(BadInput) as error:
        warmup.warm_up()
    assert str(error.value) == (
        f"Cannot write compiled kernels to {folder}: Not a directory; name another directory in"
        " NUMBA_CACHE_DIR"
    )
    monkeypatch.setattr(warmup, "IS_COMPILED", False)
    with pytest.raises(BadInput, match="NUMBA_DISABLE_JIT is set"):
        warmup.warm_up()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processor, "cache_folder", lambda: tmp_path)
    processor.report_new_code.cache_clear()
    return tmp_path


def test_code_for_another_processor_than_the_kernels_is_reported_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        processor.report_new_code()
        processor.report_new_code.cache_clear()
        name = processor.note_processor()
        processor.report_new_code()
        assert caplog.messages == []
        processor.report_new_code.cache_clear()
        (folder / "processor").write_text("haswell\nhaswell +odd")
        processor.report_new_code()
        processor.report_new_code()
    assert caplog.messages == [
        f"warning: kernels in {folder} are compiled for the processor haswell, and are compiled"
        f" anew for {name}; NUMBA_CPU_NAME names another one"
    ]
