"""Run a list of ONNX's backend suite and write its passes: ``python -m tests.onnx_suite LIST``."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from onnx.backend.test.runner import Runner
from tests.onnx_suite.backend import TileBackend
from tests.onnx_suite.cases import LISTS, Case, cases, missing

from tilescope.engine.errors import EngineError

ROOT = Path(__file__).parents[2]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def outcome(case: Case) -> str:
    """Return how a case ends: nothing for a pass, else one line."""
    try:
        prepared = TileBackend.prepare(case.model)
        for inputs, expected in case.data_sets:
            with np.errstate(all="ignore"):
                actual = prepared.run(inputs)
            Runner.assert_similar_outputs(expected, actual, case.rtol, case.atol)
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"wrong: {' | '.join(lines[:4])}"
    except EngineError as error:
        return f"refused: {' '.join(str(error).splitlines())}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def main() -> None:
    """Run the cases of a list and write what became of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = ["onnx-1.6.0", "onnx-1.23.2", "onnx-1.23.2-extended"]
    parser.add_argument("lists", nargs="*", default=usual)
    parser.add_argument("--only", default="", help="part of a case's name or of an operator's")
    parser.add_argument("--out", type=Path, default=ROOT / "build/onnx-suite.json")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/onnx-suite")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    report, surprises = {}, list[str]()
    for name in options.lists:
        if name not in LISTS:
            parser.error(f"unknown list {name!r}: the lists are {', '.join(LISTS)}")
        passed, failed, by_operator = 0, {}, Counter[str]()
        for case in cases(name, options.cache):
            if options.only not in case.name and options.only not in case.op_types:
                continue
            began = time.process_time()
            subject = outcome(case)
            if subject:
                failed[f"{case.kind} {case.name}"] = subject
                surprises += [case.name] if case.name not in missing() else []
                say(
                    f"{case.kind} {case.name} ({time.process_time() - began:.1f} s):"
                    f" {subject[:300]}"
                )
            else:
                passed += 1
                by_operator.update(case.op_types)
        report[name] = {
            "passed": passed,
            "failed": failed,
            "passes_by_operator": dict(sorted(by_operator.items())),
        }
        say(f"{name}: {passed} of {passed + len(failed)} pass")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if surprises:
        sys.exit(f"{len(surprises)} cases failed that are not in missing.toml: {surprises}")


if __name__ == "__main__":
    main()
