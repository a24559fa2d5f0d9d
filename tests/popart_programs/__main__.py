"""Run public programs of PopART unchanged, and show which of them end as they should."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.models.digits import idx_folder

_ROOT = Path(__file__).parents[2]

#: Two names of numpy that the programs of 2021 call, and that it has dropped since.
_COMPATIBILITY = """\
import numpy as np
np.fromstring = lambda text, dtype=float: np.frombuffer(text, dtype).copy()
"""


@dataclass(frozen=True)
class Program:
    """A program as its repository has it.

    Parameters
    ----------
    repository
        ``popart`` or ``tutorials``, both of the organisation graphcore.
    path
        Of the file below the checkout.
    arguments
        Of its command line.
    is_test
        Whether it is run by pytest.
    needs_digits
        Whether it reads the digits of MNIST from the folder ``data`` beside it.
    pattern
        What its output has to have: a regular expression whose group, if it has one, is a
        percentage.
    least
        The smallest such percentage.
    without
        A test of the file that is left out: it counts PopART's own operations in a debug file.
    """

    repository: str
    path: str
    arguments: tuple[str, ...] = ()
    is_test: bool = False
    needs_digits: bool = False
    pattern: str = ""
    least: float = 0.0
    without: str = ""


_FEATURES = "feature_examples/popart"
_MNIST = "simple_applications/popart/mnist"
_PASSED = r"(?m)^\S*\d+ passed"
_ACCURACY = r"(?s).*Accuracy=([\d.]+)%"

PROGRAMS = (
    Program("popart", "docs/popart/files/simple_addition.py", pattern=r"Result is \["),
    Program("popart", "docs/popart/files/weights.py"),
    Program("popart", "docs/popart/files/replication_popart.py"),
    Program("tutorials", f"{_FEATURES}/callbacks/callbacks.py"),
    Program("tutorials", f"{_FEATURES}/callbacks/test_callbacks.py", is_test=True, pattern=_PASSED),
    Program("tutorials", f"{_FEATURES}/pipelining/pipelining.py"),
    Program(
        "tutorials", f"{_FEATURES}/pipelining/test_pipelining.py", is_test=True, pattern=_PASSED
    ),
    Program("tutorials", f"{_FEATURES}/recomputing/recomputing.py", ("--test",)),
    Program(
        "tutorials", f"{_FEATURES}/recomputing/test_recomputing.py", is_test=True, pattern=_PASSED
    ),
    Program("tutorials", "kernel_benchmarks/popart/lstm.py", ("--simulation",)),
    Program(
        "tutorials",
        f"{_MNIST}/popart_mnist.py",
        ("--batch-size", "4", "--batches-per-step", "1000"),
        needs_digits=True,
        pattern=_ACCURACY,
        least=90.7 - 3.0,
    ),
    Program(
        "tutorials",
        f"{_MNIST}/popart_mnist_conv.py",
        ("--batch-size", "4", "--batches-per-step", "1000", "--epochs", "2"),
        needs_digits=True,
        pattern=_ACCURACY,
        least=95.0,
    ),
    Program("popart", "tests/integration/train_then_infer_test.py", is_test=True, pattern=_PASSED),
    Program(
        "popart",
        "tests/integration/optimizer_tests/adam_mixed_mode_test_py_0.py",
        is_test=True,
        pattern=_PASSED,
        without="test_adam_mixed_mode_1",
    ),
    Program(
        "popart",
        "tests/integration/optimizer_tests/sgd_mixed_mode_test_py_1.py",
        is_test=True,
        pattern=_PASSED,
    ),
    Program(
        "popart",
        "tests/integration/pipelining_tests/pipeline_grad_accl_test.py",
        is_test=True,
        pattern=_PASSED,
    ),
)


def _outcome(program: Program, checkout: Path, scratch: Path, digits: Path | None) -> str:
    """Run a program in a copy of its folder; return nothing if it ends well, else one line."""
    source = checkout / program.path
    if not source.is_file():
        return f"{source} does not exist"
    # Programs and tests import what stands beside them, up to the root of their repository.
    tree = scratch / program.repository
    if not tree.exists():
        shutil.copytree(checkout, tree, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    file = tree / program.path
    if program.needs_digits:
        assert digits is not None, "main fetches them"
        data = file.parent / "data"
        if not data.exists():
            data.symlink_to(digits)
    (scratch / "compatibility").mkdir(exist_ok=True)
    (scratch / "compatibility" / "sitecustomize.py").write_text(_COMPATIBILITY)
    command = [sys.executable, file.name, *program.arguments]
    if program.is_test:
        options = ["-q", "-n0", "-p", "no:cacheprovider", "-o", "addopts=", "-c", os.devnull]
        root = ["--rootdir", str(file.parent)]
        root += ["-k", f"not {program.without}"] if program.without else []
        command = [sys.executable, "-m", "pytest", *options, *root, file.name]
    paths = [
        scratch / "compatibility",
        _ROOT,
        _ROOT / "compat",
        tree,
        tree / "utils",
        tree / "tests/integration",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
        "TEST_TARGET": "Cpu",
    }
    ended = subprocess.run(
        command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False
    )
    return _judged(program, ended)


def _judged(program: Program, ended: subprocess.CompletedProcess[str]) -> str:
    last = (ended.stderr.strip() or ended.stdout.strip() or "no output").splitlines()[-1]
    if ended.returncode:
        return f"exit code {ended.returncode}: {last}"
    found = re.search(program.pattern, ended.stdout)
    if found is None:
        return f"its output lacks {program.pattern!r}: {last}"
    if found.groups() and float(found.group(1)) < program.least:
        return f"{found.group(1)} %, at least {program.least:.1f} % expected"
    return ""


def main() -> int:
    """Run the programs; 1 if one of them fails, 2 if a checkout is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.popart_programs", description=__doc__)
    parser.add_argument("--popart", type=Path, required=True, help="a checkout of graphcore/popart")
    parser.add_argument(
        "--tutorials", type=Path, required=True, help="a checkout of graphcore/tutorials"
    )
    parser.add_argument("--digits", type=Path, help="folder with MNIST; fetched without it")
    parser.add_argument("-k", dest="words", default="", help="programs whose path has this")
    given = parser.parse_args()
    checkouts = {"popart": given.popart, "tutorials": given.tutorials}
    for name, checkout in checkouts.items():
        if not checkout.is_dir():
            sys.stderr.write(f"{checkout} is no checkout of graphcore/{name}\n")
            return 2
    chosen = [program for program in PROGRAMS if given.words in program.path]
    digits = given.digits
    if digits is None and any(program.needs_digits for program in chosen):
        digits = idx_folder(_ROOT / "build" / "digits")
    n_failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for program in chosen:
            start = time.monotonic()
            why = _outcome(program, checkouts[program.repository].resolve(), Path(scratch), digits)
            n_failed += bool(why)
            seconds = time.monotonic() - start
            shown = f"{program.repository}/{program.path}"
            shown += f" without {program.without}" if program.without else ""
            sys.stdout.write(f"{'failed' if why else 'ok':6} {seconds:6.1f} s  {shown}  {why}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - n_failed} of {len(chosen)} programs end as they should\n")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
