"""Compare random graphs with onnxruntime: ``python -m tests.onnx_fuzz --number N --seed S``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.onnx_fuzz.compare import Outcome, compared, model_of_seed

_BAD = (Outcome.WRONG, Outcome.FAILED, Outcome.REFUSED)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Compare graphs of consecutive seeds; fail if one is wrong, refused or raises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=300, help="of graphs")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    counts: Counter[Outcome] = Counter()
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.number):
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                break
            outcome, why = compared(seed, Path(folder) / "drawn.onnx")
            counts[outcome] += 1
            if outcome in _BAD:
                nodes = ", ".join(node.op_type for node in model_of_seed(seed).graph.node)
                say(f"seed {seed}: {outcome}: {why[:300]} ({nodes})")
    say(", ".join(f"{n:,} {outcome}" for outcome, n in sorted(counts.items())))
    if any(counts[outcome] for outcome in _BAD):
        sys.exit(1)


if __name__ == "__main__":
    main()
