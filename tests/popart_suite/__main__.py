"""Run PopART's own tests, and show by file how many pass."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Groups of tests, by name: folders and files of PopART's tests/integration. Of a folder, all files
#: of Python that hold tests are meant, whatever their names.
GROUPS = {
    "operators": ("operators_test",),
    "optimizers": (
        "optimizer_tests",
        "optimizer_test.py",
        "clip_by_norm_test.py",
        "gradient_accumulation_test.py",
        "loss_scaling_test.py",
        "loss_scaling_infrequent_oversteps.py",
        "loss_scaling_update_period0_test.py",
        "loss_scaling_update_period1_test.py",
        "lambserialisedweight_tests",
        "auto_loss_scaling_gradient_accumulation_test.py",
        "auto_loss_scaling_identical_weight_updates_0.py",
        "auto_loss_scaling_identical_weight_updates_1.py",
    ),
    "sessions": (
        "anchor_tests",
        "anchorreturntype_test.py",
        "constant_weights_error_test.py",
        "context_scope_test.py",
        "cycle_count_test.py",
        "device_test.py",
        "dim_param_test.py",
        "exception_test.py",
        "export_test.py",
        "external_tensorproto_data_test.py",
        "import_test.py",
        "int8_host_stream_test.py",
        "loader_test.py",
        "model_loading_test.py",
        "net_test.py",
        "np_memory_layout_test.py",
        "offline_compilation.py",
        "options_test.py",
        "deprecated_session_options.py",
        "prefetch_test.py",
        "report_test.py",
        "report_test_cpu.py",
        "saved_executable.py",
        "saved_executable_cpu.py",
        "session_api_tests",
        "stepio_tests",
        "stream_test.py",
        "stubs_test.py",
        "synthetic_data_test.py",
        "train_then_infer_test.py",
        "type_casting_test.py",
        "variable_inference_test.py",
        "version_test.py",
    ),
    "streaming memory": ("streamingmemory_tests",),
    "builder": ("builder_test.py", "builder_name_test.py"),
    "passes": (
        "abort_test.py",
        "addbias.py",
        "aliaszerocopy_model_test.py",
        "all_constexpr.py",
        "annotations_test.py",
        "available_memory_proportion_test.py",
        "bert_test.py",
        "constant_op_test.py",
        "constexpr_tests",
        "contiguous_memory_test.py",
        "conv_dithering_test.py",
        "convolution_options_test.py",
        "debug_info_test.py",
        "decompose_gradient_summation_test.py",
        "doc_test.py",
        "dont_inplace_test.py",
        "dropout_tests",
        "enhanced_debug.py",
        "float_to_half_conversion_test.py",
        "fp16_test.py",
        "graph_caching_test.py",
        "inplace_tests",
        "logging_test.py",
        "matmul_tests",
        "min_max_unwinding_test.py",
        "nop_test.py",
        "outlining_execution_context_test.py",
        "outlining_test.py",
        "padsumpattern.py",
        "partials_tests.py",
        "pattern_tests",
        "patterns_test.py",
        "printtensor.py",
        "prune_all_error_test.py",
        "random_test.py",
        "randomsetup_test.py",
        "recompute_compatibility_test.py",
        "recompute_tests",
        "scheduling_tests",
        "serialise_matmul_manually.py",
        "subgraph_tests",
        "supported_ops_test.py",
        "tiedgather_tests",
        "transformation_tests",
    ),
}

#: In the order of the table.
_OUTCOMES = ("passed", "failed", "refused", "skipped")


def declared_target(file: Path) -> str:
    """Return the device that PopART's build runs a file of tests on: what its CMakeLists.txt says.

    Parameters
    ----------
    file
        Of tests.
    """
    lists = file.parent / "CMakeLists.txt"
    text = lists.read_text() if lists.exists() else ""
    declared = re.search(rf"_unit_test\(\s*{file.stem}\b([^)]*)\)", text)
    variants = re.search(r"VARIANTS\s+\"?([^\s\";)]+)", declared[1]) if declared else None
    if variants is None:
        return "Cpu"
    return "Hw" if variants[1].startswith("${HW") else variants[1]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


@dataclass
class _File:
    """Outcomes and times of the tests of a file."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def main() -> int:
    """Run the tests and print the table; 1 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.popart_suite", description=__doc__)
    parser.add_argument("popart", type=Path, help="a checkout of PopART")
    parser.add_argument("--group", choices=[*GROUPS, "all"], default="all")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--target", default="", help="TEST_TARGET: Cpu, IpuModel2 or Hw; by default that of a file"
    )
    parser.add_argument("--errors", action="store_true", help="list what failed, with its error")
    parser.add_argument("-k", dest="words", default="", help="tests whose names match")
    given = parser.parse_args()
    folder = given.popart.resolve() / "tests" / "integration"
    if not folder.is_dir():
        sys.stderr.write(f"{given.popart} is no checkout of PopART: no tests/integration in it\n")
        return 2
    names = GROUPS if given.group == "all" else {given.group: GROUPS[given.group]}
    paths = [file for parts in names.values() for part in parts for file in _files(folder / part)]
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "outcomes.jsonl"
        lines.touch()
        os.environ["TILESCOPE_POPART_OUTCOMES"] = str(lines)
        os.environ["OMP_NUM_THREADS"] = "1"
        from tests.popart_suite.isolation import run_files  # imports numba with this environment

        targets = {path: given.target or declared_target(path) for path in paths}
        run_files(targets, folder, Path(scratch), given.jobs, given.words)
        records = [json.loads(line) for line in lines.read_text().splitlines()]
    return print_outcomes(records, has_errors=given.errors)


def _files(path: Path) -> list[Path]:
    """The files of Python at a path that hold tests; none if it does not exist."""
    files = sorted(path.glob("*.py")) if path.is_dir() else [path] if path.exists() else []
    return [file for file in files if re.search(r"^\s*def test_", file.read_text(), re.MULTILINE)]


def print_outcomes(
    records: list[dict[str, object]],
    *,
    has_errors: bool,
    columns: Sequence[str] = _OUTCOMES,
) -> int:
    """Print a table by file, and what failed if it is asked for; return 1 if nothing ran.

    Parameters
    ----------
    records
        Lines of the plugin `tests.popart_suite.outcomes`.
    has_errors
        Whether to list what failed, with its error.
    columns
        Outcomes, in the order of the table.
    """
    files: dict[str, _File] = {}
    for record in records:
        file = files.setdefault(str(record["test"]).split("::")[0], _File())
        if "outcome" in record:
            file.outcomes[str(record["outcome"])] += 1
        elif "seconds" in record:
            file.seconds.append(float(str(record["seconds"])))
    total = _File()
    heads = " ".join(f"{outcome:>8}" for outcome in columns)
    _say(f"{'file':60} {heads} {'s each':>8}")
    for name, file in sorted(files.items()):
        total.outcomes += file.outcomes
        total.seconds += file.seconds
        _print_row(name, file, columns)
    _print_row("all", total, columns)
    if total.seconds:
        most = sorted(total.seconds)[int(0.95 * (len(total.seconds) - 1))]
        _say(
            f"Processor time of a test: median {statistics.median(total.seconds):.2f} s,"
            f" 95 % under {most:.2f} s, all {sum(total.seconds):.0f} s"
        )
    if has_errors:
        for record in records:
            if record.get("outcome") in ("failed", "refused"):
                _say(f"{record['outcome']:8} {record['test']}: {record['error']}")
    return 0 if files else 1


def _print_row(name: str, file: _File, columns: Sequence[str]) -> None:
    counts = " ".join(f"{file.outcomes[outcome]:8,}" for outcome in columns)
    seconds = statistics.median(file.seconds) if file.seconds else 0
    _say(f"{name[-60:]:60} {counts} {seconds:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
