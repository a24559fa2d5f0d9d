"""The command that measures what remedies gain, as the run or the training was started."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilescope.analyser.advice.training_sizes import batch_of, micro_batches
from tilescope.analyser.machine.target import target
from tilescope.analyser.summary.provenance import provenance
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["measuring_command"]

#: Flags of ``tilescope train`` with one value, by the fact of the provenance that has it.
_VALUES = {
    "loss": "--loss",
    "labels": "--labels",
    "data_name": "--data",
    "optimizer": "--optimizer",
    "schedule": "--schedule",
}
#: Flags that are repeated.
_LISTS = {
    "optimizer_for": "--optimizer-for",
    "recomputed_nodes": "--recompute-nodes",
    "kept_nodes": "--keep-nodes",
    "trained": "--train-only",
    "frozen": "--freeze",
}
#: Flags of half precision that are repeated.
_ENTRIES = {
    "keep_float": "--keep-float",
    "in_half": "--in-half",
    "half_partials": "--half-partials",
}
#: Flags without a value.
_SWITCHES = {"half_weights": "--half-weights", "counts_overflows": "--count-overflows"}


#: What has tiles of its own.
_OWN_TILES = frozenset({"tiles", "machine"})


def measuring_command(report: Report, flags: Mapping[str, str | None]) -> str:
    """Return the command that measures some remedies; empty where the program has to change.

    Parameters
    ----------
    report
        The report.
    flags
        What each remedy adds to the command, by its name.
    """
    facts, machine = provenance(report), target(report)
    added = list(flags.values())
    trains = "optimizer" in facts
    if not added or None in added or "model_sha256" not in facts:
        return ""
    if trains and "data_name" not in facts:  # a training that a program started
        return ""
    words = ["tilescope", "train" if trains else "run"]
    words.append(f"{facts.get('model_name') or 'model'}.onnx")
    if trains:
        words += _of_training(facts)
    is_preset = machine.preset_tiles_per_ipu is not None
    if "machine" not in flags:
        words += ["--machine", machine.name if is_preset else f"{machine.name}.toml"]
    n_ipus = machine.n_ipus * (2 if "ipus" in flags else 1)
    if n_ipus > 1:
        words += ["--ipus", str(n_ipus)]
    if machine.tiles_per_ipu != machine.preset_tiles_per_ipu and not flags.keys() & _OWN_TILES:
        words += ["--tiles", str(machine.tiles_per_ipu)]
    n_rounds = micro_batches(report)
    if "batch" in facts:
        batch = batch_of(report) // 2 if "batch" in flags else facts["batch"]
        words += ["--batch", str(batch)]
        n_rounds *= 1 + ("batch" in flags)
    if "batch_parts" in facts:
        words += ["--batch-parts", facts["batch_parts"]]
    if trains and n_rounds > 1:
        words += ["--accumulate", str(n_rounds)]
    recomputation = facts.get("recomputation", "none")
    if recomputation != "none":
        words += ["--recompute", recomputation]
    if "precision" in facts and "--precision half" not in added:
        words += ["--precision", facts["precision"]]
        words += _of_half(facts, default="mixed" if trains else "throughout")
    for fact, flag in _SWITCHES.items():
        words += [flag] * (facts.get(fact) == "true")
    for option, value, origin in report.rows(schema.engine_option, "name", "value", "origin"):
        is_reported = option.startswith("autoReport.") or option == "debug.instrument"
        if origin == "command line" and not is_reported:
            words += ["--option", f"{option}={value}"]
    words += " ".join(filter(None, added)).split()
    return shlex.join([*words, "--report", "-".join(flags).replace("_", "-")])


def _of_half(facts: Mapping[str, str], default: str) -> list[str]:
    """Return the flags of a policy of half."""
    name = facts.get("half_policy", default)
    words = [] if name == default else ["--half-policy", name]
    for key, flag in _ENTRIES.items():
        words += [w for entry in json.loads(facts.get(key, "[]")) for w in (flag, entry)]
    return words


def _of_training(facts: Mapping[str, str]) -> list[str]:
    """Return the flags of a training that the run of a model has not."""
    words = [w for key, flag in _VALUES.items() if key in facts for w in (flag, facts[key])]
    for key, flag in _LISTS.items():
        words += [w for item in json.loads(facts.get(key, "[]")) for w in (flag, item)]
    if facts.get("seed", "0") != "0":
        words += ["--seed", facts["seed"]]
    return words
