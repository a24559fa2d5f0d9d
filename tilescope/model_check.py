"""What ``tilescope models check`` prints: what a model is made of, and whether it would run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tilescope.console import Column, print_json, print_line, print_table

if TYPE_CHECKING:
    from tilescope.engine.frontend.onnx.facts.census import Census
    from tilescope.engine.machine import Machine
    from tilescope.engine.session.fit import CompiledFit

__all__ = ["advice", "print_check", "print_check_json"]

#: Operators and nodes that one screen shows.
_MOST_OPERATORS = 8
_MOST_NODES = 3
#: Share of the memory for code from which on control code alone makes a model doubtful.
_MUCH_CODE = 0.3


def advice(
    census: Census,
    machine: Machine,
    model: Path,
    precision: str,
    flags: Sequence[str] = (),
    fit: CompiledFit | None = None,
) -> tuple[bool, list[str]]:
    """Return whether nothing speaks against a run, and what to do next, a sentence each.

    Parameters
    ----------
    census
        Of the model.
    machine
        The machine to run on.
    model
        The model's file.
    precision
        Of the run.
    flags
        Options that the command that runs the model takes over.
    fit
        What a compilation found; None without one.
    """
    if census.missing:
        n_nodes = sum(map(len, census.missing.values()))
        return False, [
            f"The model cannot run: operators {', '.join(sorted(census.missing))} are not supported"
            f" (nodes: {n_nodes:,}). Export it without them, or cut it before them:"
            f" tilescope models cut {shlex.quote(str(model))} --to TENSOR --output cut.onnx"
        ]
    suggestions = [
        f"Shapes depend on input {name}: give its values with --set {name}=..."
        for name in census.to_set
    ]
    if census.problem and not census.to_set:
        suggestions.append(f"The model cannot run: {census.problem}")
    if suggestions:
        return False, suggestions
    capacity = _capacity(machine)
    if census.least_bytes > capacity:
        remedies = ["a smaller batch or smaller inputs"] if census.weight_bytes <= capacity else []
        if precision == "float" and census.least_bytes <= 2 * capacity:
            remedies.append("--precision half, which halves weights and results")
        n_ipus = 1 << (-(-census.least_bytes // capacity) - 1).bit_length()
        remedies.append(f"{n_ipus} IPUs or more (--ipus {n_ipus})")
        return False, [f"The model does not fit: use {' or '.join(remedies)}."]
    if fit is not None and fit.problem:
        return False, [f"The model does not fit: {fit.problem}"]
    words = shlex.join([str(model), *flags])
    unsure = [] if fit is not None else [f"{_estimate(census, machine)}: add --compile to be sure."]
    return True, [*unsure, f"Next: tilescope run {words}"]


def _estimate(census: Census, machine: Machine) -> str:
    """Return what is not known before a model is compiled."""
    share = _control_code_bytes(census, machine) / machine.non_interleaved_bytes
    if share > _MUCH_CODE:
        return (
            f"Its code may not fit: control code alone may take {share:.0%} of its part of a tile"
        )
    return "Code, copies and messages are not counted"


def _control_code_bytes(census: Census, machine: Machine) -> int:
    """Return what the control code takes on every tile if every node is a step."""
    fixed = machine.stack_bytes + machine.control_code_bytes
    return fixed + census.n_nodes * machine.control_code_bytes_per_step


def _capacity(machine: Machine) -> int:
    """Return the bytes of all tiles that a program can use."""
    return machine.allocatable_bytes * machine.n_tiles


def print_check_json(
    census: Census,
    machine: Machine,
    model: Path,
    precision: str,
    given: Sequence[str],
    fit: CompiledFit | None,
) -> bool:
    """Print the check as JSON; return whether nothing speaks against a run."""
    is_ready, steps = advice(census, machine, model, precision, given, fit)
    print_json(
        {
            "model": str(model),
            "machine": machine.name,
            "opset": census.opset,
            "n_nodes": census.n_nodes,
            "operators": census.operators,
            "missing": census.missing,
            "inputs": [
                {"name": given.name, "dtype": given.dtype, "shape": list(given.shape)}
                for given in census.inputs
            ],
            "inputs_to_set": list(census.to_set),
            "n_parameters": census.n_parameters,
            "multiply_adds": census.multiply_adds,
            "weight_bytes": census.weight_bytes,
            "activation_bytes": census.activation_bytes,
            "least_bytes": census.least_bytes,
            "capacity_bytes": _capacity(machine),
            "n_unknown_shapes": census.n_unknown,
            "notices": [notice.message for notice in census.notices],
            "control_code_bytes": _control_code_bytes(census, machine),
            "code_capacity_bytes": machine.non_interleaved_bytes,
            "compiled": None if fit is None else asdict(fit),
            "is_ready": is_ready,
            "advice": steps,
        }
    )
    return is_ready


def print_check(
    census: Census,
    machine: Machine,
    model: Path,
    precision: str,
    given: Sequence[str],
    fit: CompiledFit | None,
) -> bool:
    """Print the check on one screen; return whether nothing speaks against a run."""
    from tilescope.analyser.quantities import format_bytes

    is_ready, steps = advice(census, machine, model, precision, given, fit)
    capacity = _capacity(machine)
    lower_bound = "at least " if census.n_unknown else ""
    rows = [
        ("Nodes", f"{census.n_nodes:,} of {len(census.operators)} operators, opset {census.opset}"),
        ("Operators", _shortened([f"{k} {n:,}" for k, n in census.operators.items()])),
        ("Not supported", _missing(census)),
        *(("Input", str(given)) for given in census.inputs[:_MOST_OPERATORS]),
        ("Parameters", f"{census.n_parameters:,}"),
        ("Multiply-adds", f"{lower_bound}{census.multiply_adds:,} per run"),
        ("Weights", format_bytes(census.weight_bytes, "binary")),
        ("Results at once", format_bytes(census.activation_bytes, "binary")),
        (
            "Memory",
            f"at least {format_bytes(census.least_bytes, 'binary')} of"
            f" {format_bytes(capacity, 'binary')} on {machine.name}"
            f" ({census.least_bytes / capacity:.1%}); code, copies and messages come on top",
        ),
        (
            "Control code",
            f"about {format_bytes(_control_code_bytes(census, machine), 'binary')} of"
            f" {format_bytes(machine.non_interleaved_bytes, 'binary')} that hold code on a tile;"
            " vertices and exchanges come on top",
        ),
    ]
    if fit is not None and fit.code_bytes is not None and fit.max_tile_bytes is not None:
        rows.append(
            (
                "Compiled",
                f"code {format_bytes(fit.code_bytes, 'binary')}, highest address"
                f" {format_bytes(fit.max_tile_bytes, 'binary')} of"
                f" {format_bytes(machine.allocatable_bytes, 'binary')}",
            )
        )
    if census.n_unknown:
        rows.append(("Unknown", f"{census.n_unknown:,} results have no known shape: left out"))
    print_table([Column("Model"), Column(str(model.name))], rows)
    print_line()
    for notice in census.notices:
        print_line(notice.message)
    for step in steps:
        print_line(step)
    return is_ready


def _missing(census: Census) -> str:
    """Return the operators that are missing, with their nodes."""
    if not census.missing:
        return "none"
    return _shortened(
        [
            f"{operator} {len(names):,} ({_shortened(names, _MOST_NODES)})"
            for operator, names in sorted(census.missing.items())
        ]
    )


def _shortened(texts: list[str], limit: int = _MOST_OPERATORS) -> str:
    """Return the first texts, and how many more there are."""
    remainder = f" and {len(texts) - limit:,} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + remainder
