"""Run public programs of PopTorch unchanged, and show which of them end as they should."""

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

ROOT = Path(__file__).parents[2]
_STUBS = Path(__file__).parent / "stubs"


@dataclass(frozen=True)
class Program:
    """A program as its repository has it.

    Parameters
    ----------
    repository
        ``poptorch`` or ``tutorials``, both of the organisation graphcore.
    path
        Of the file below the checkout.
    pattern
        What its output has to have: a regular expression whose group, if it has one, is a
        percentage.
    least
        The smallest such percentage.
    copies
        A file below the folder, and where the program looks for it; both empty if nowhere.
    most
        Digits of either set that it sees; all of them if 0.
    """

    repository: str
    path: str
    pattern: str = ""
    least: float = 0.0
    most: int = 0
    copies: tuple[str, str] = ("", "")


#: All of them write a report. Left out are programs
#: - that fetch weights or data: examples/bert_ipu.py, docs/user_guide/pipeline_simple.py,
#:   docs/user_guide/inferenceModel.py, and the tutorials finetuning_bert, vit_model_training and
#:   bert_inference.py;
#: - that need another package: popdist_training.py (popdist), octconv_example.py (octconv),
#:   pytorch_demo.py (models of torchvision), poptorch_custom_op.py (an operator in C++);
#: - that are for a notebook and end at once as programs: the walkthroughs of
#:   efficient_data_loading and pipelining, whose programs beside them are below;
#: - that are refused: docs/user_guide/phased_execution.py (phases need memory off the chip).
PROGRAMS = (
    Program("poptorch", "examples/simple_adder.py", "Success"),
    Program("poptorch", "examples/mnist.py", r"(?s).*we got: ([\d.]+)% correct", 88.0),
    Program("poptorch", "examples/lstm.py"),
    Program("poptorch", "docs/user_guide/mnist.py"),
    Program("poptorch", "docs/user_guide/sumAnchorReturnType.py"),
    Program("poptorch", "docs/user_guide/trainingModel.py"),
    Program("poptorch", "docs/user_guide/precompilation.py"),
    Program("poptorch", "docs/user_guide/replica_grouped_weights.py"),
    Program("poptorch", "docs/user_guide/device_iterations.py"),
    Program("poptorch", "docs/user_guide/poptorch_training_simple.py"),
    Program("poptorch", "docs/user_guide/api.py", copies=("poptorch.conf", "tmp/poptorch.conf")),
    Program("poptorch", "docs/user_guide/buffers.py"),
    Program("poptorch", "docs/user_guide/debugging.py"),
    Program("poptorch", "docs/user_guide/error_handling.py"),
    Program(
        "tutorials",
        "tutorials/pytorch/basics/walkthrough.py",
        r"(?s).*Eval accuracy: ([\d.]+)%",
        85.0,
    ),
    Program("tutorials", "tutorials/pytorch/efficient_data_loading/tuto_data_loading.py"),
    Program("tutorials", "tutorials/pytorch/mixed_precision/walkthrough.py", most=64),
    Program("tutorials", "tutorials/pytorch/observing_tensors/anchor_tensor_example.py"),
    Program("tutorials", "tutorials/pytorch/pipelining/mnist_pipeline.py", most=8000),
    Program("tutorials", "simple_applications/pytorch/mnist/mnist_poptorch.py"),
)


def _outcome(program: Program, checkout: Path, scratch: Path, digits: Path) -> str:
    """Run a program in a copy of its folder; return nothing if it ends well, else one line."""
    source = checkout / program.path
    if not source.is_file():
        return f"{source} does not exist"
    folder = scratch / program.repository / Path(program.path).parent
    if not folder.exists():
        shutil.copytree(source.parent, folder, symlinks=True)
    known, copy = program.copies
    if copy:
        (folder / copy).parent.mkdir(exist_ok=True)
        shutil.copy(folder / known, folder / copy)
    # Other packages look for torchvision, too, and would ask the stub for more than data.
    stubs = [_STUBS] if "torchvision" in source.read_text() else []
    paths = [*stubs, ROOT, ROOT / "compat", os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "DIGITS": str(digits),
        "DIGITS_MOST": str(program.most),
        "OMP_NUM_THREADS": "1",
        "POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}',
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    start = time.time()
    ended = subprocess.run(
        [sys.executable, source.name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    last = (ended.stderr.strip() or ended.stdout.strip() or "no output").splitlines()[-1]
    if ended.returncode:
        return f"exit code {ended.returncode}: {last}"
    if not any(report.stat().st_mtime > start for report in folder.rglob("profile.pop")):
        return "it wrote no report"
    match = re.search(program.pattern, ended.stdout)
    if match is None:
        return f"its output lacks {program.pattern!r}: {last}"
    if match.groups() and float(match[1]) < program.least:
        return f"{match[1]} %, at least {program.least:.1f} % expected"
    return ""


def main() -> int:
    """Run the programs; 1 if one of them fails, 2 if a checkout is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.poptorch_programs", description=__doc__)
    for name in ("poptorch", "tutorials"):
        parser.add_argument(f"--{name}", type=Path, help=f"a checkout of graphcore/{name}")
    parser.add_argument("--digits", type=Path, help="folder with MNIST; fetched without it")
    parser.add_argument("-k", dest="words", default="", help="programs whose paths have this")
    given = parser.parse_args()
    checkouts = {"poptorch": given.poptorch, "tutorials": given.tutorials}
    digits = given.digits or idx_folder(ROOT / "build" / "mnist")
    failures = n_run = 0
    with tempfile.TemporaryDirectory() as scratch:
        for program in PROGRAMS:
            checkout = checkouts[program.repository]
            if checkout is None or given.words not in program.path:
                continue
            start = time.monotonic()
            why = _outcome(program, checkout.resolve(), Path(scratch), digits.resolve())
            failures, n_run = failures + bool(why), n_run + 1
            line = f"{program.path:55} {time.monotonic() - start:6.0f} s  {why or 'as it should'}"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 1 if failures else 0 if n_run else 2


if __name__ == "__main__":
    sys.exit(main())
