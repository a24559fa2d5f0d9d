"""Compare random graphs, and single nodes by attribute, with onnxruntime and ONNX's reference.

``python -m tests.onnx_fuzz --number N --seed S --minutes M``
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.onnx_fuzz.attributes import DRAWERS
from tests.onnx_fuzz.compare import Outcome, compared, model_of_seed
from tests.onnx_fuzz.one_node import compared_case

_BAD = (Outcome.WRONG, Outcome.FAILED, Outcome.REFUSED)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Compare graphs and nodes of consecutive seeds; fail if one is wrong, refused or raises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=300, help="of graphs, and of seeds of nodes")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    parser.add_argument(
        "--kind", choices=["graphs", "attributes", "both"], default="both", help="what is drawn"
    )
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, Outcome]] = Counter()
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.onnx"
        for seed in range(options.seed, options.seed + options.number):
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                break
            if options.kind != "attributes":
                outcome, why = compared(seed, path)
                counts["graphs", outcome] += 1
                if outcome in _BAD:
                    nodes = ", ".join(node.op_type for node in model_of_seed(seed).graph.node)
                    say(f"seed {seed}: {outcome}: {why[:300]} ({nodes})")
            for name in DRAWERS if options.kind != "graphs" else ():
                outcome, why = compared_case(name, seed, path)
                counts["nodes", outcome] += 1
                if outcome in _BAD:
                    say(f"{name} {seed}: {outcome}: {why[:400]}")
    for kind in ("graphs", "nodes"):
        results = [(outcome, n) for (of, outcome), n in sorted(counts.items()) if of == kind]
        if results:
            say(f"{kind}: " + ", ".join(f"{n:,} {outcome}" for outcome, n in results))
    if any(outcome in _BAD for _, outcome in counts):
        sys.exit(1)


if __name__ == "__main__":
    main()
