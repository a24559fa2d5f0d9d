"""One machine as a frozen record, read from a preset whose every figure names its source."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

from engine.errors import BadMachine

__all__ = ["PARAMETER_SETS", "Machine", "load_machine", "machine_figures", "machine_names"]

PARAMETER_SETS = ("hardware", "ipu_model")


@dataclass(frozen=True)
class Machine:
    """The figures of a machine that the compiler and the cycle laws use.

    Cycles are tile clock cycles; bytes are of one tile unless the name says otherwise.
    """

    name: str
    architecture: str
    parameter_set: str
    n_ipus: int
    tiles_per_ipu: int
    n_worker_contexts: int
    bytes_per_tile: int
    non_interleaved_bytes: int
    interleaved_bytes: int
    memory_element_bytes: int
    clock_hz: float
    exchange_bytes_per_cycle: float
    exchange_start_cycles: int
    exchange_fragment_cycles: int
    sync_cycles: int
    external_sync_cycles: int
    host_bytes_per_cycle: float
    host_copy_cycles: int
    link_bytes_per_cycle: float
    data_path_bytes: int
    weight_load_bytes_per_cycle: int
    half_conv_units: int
    float_conv_units: int
    half_conv_inputs: int
    float_conv_inputs: int
    stack_bytes: int
    control_code_bytes_per_step: int
    control_code_bytes: int
    exchange_code_bytes_per_message: int
    exchange_code_bytes_per_phase: int
    host_exchange_code_bytes: int
    packet_header_bytes: int
    instrumentation_bytes_per_step: int

    @property
    def n_tiles(self) -> int:
        """Tiles of all IPUs."""
        return self.n_ipus * self.tiles_per_ipu

    @property
    def total_bytes(self) -> int:
        """Memory of all tiles, bytes."""
        return self.n_tiles * self.bytes_per_tile

    def ipu_of(self, tile_id: int) -> int:
        """Return the IPU a tile belongs to."""
        return tile_id // self.tiles_per_ipu


def machine_names() -> list[str]:
    """Return the names of the presets, sorted."""
    folder = resources.files("engine.machine") / "presets"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def machine_figures(name: str) -> dict[str, Any]:
    """Return a preset as it stands in its file: every figure with its value and source.

    Raises
    ------
    BadMachine
        When there is no preset of that name.
    """
    known = machine_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadMachine(f"There is no target {name!r}: choose one of {', '.join(known)}{hint}")
    path = resources.files("engine.machine") / "presets" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def load_machine(
    name: str = "gc200",
    *,
    n_ipus: int = 1,
    tiles_per_ipu: int | None = None,
    parameter_set: str = "hardware",
) -> Machine:
    """Return the machine called `name` with as many IPUs and tiles as asked for.

    Parameters
    ----------
    name
        A preset: see `machine_names`.
    n_ipus
        Number of IPUs, 1 to 64.
    tiles_per_ipu
        Tiles of each IPU; the preset's own number when None. Smaller machines are for tests.
    parameter_set
        ``hardware`` or ``ipu_model``.

    Raises
    ------
    BadMachine
        Unknown name or set, or a number that is out of range.
    """
    figures = machine_figures(name)
    if parameter_set not in PARAMETER_SETS:
        raise BadMachine(
            f"There is no parameter set {parameter_set!r}: choose hardware or ipu_model"
        )
    merged = {**figures["common"], **figures[parameter_set]}
    values = {key: figure["value"] for key, figure in merged.items()}
    expected = {f.name for f in fields(Machine)} - {
        "name",
        "architecture",
        "parameter_set",
        "n_ipus",
    }
    if missing := expected - set(values):
        raise BadMachine(f"Target {name} leaves out {', '.join(sorted(missing))}")
    machine = Machine(
        name=name,
        architecture=figures["architecture"],
        parameter_set=parameter_set,
        n_ipus=n_ipus,
        **{key: values[key] for key in expected},
    )
    if not 1 <= n_ipus <= 64:
        raise BadMachine(f"{n_ipus} IPUs cannot be: a system has 1 to 64")
    if tiles_per_ipu is not None:
        if not 1 <= tiles_per_ipu <= machine.tiles_per_ipu:
            raise BadMachine(
                f"{tiles_per_ipu} tiles cannot be: a {name} has 1 to {machine.tiles_per_ipu} tiles"
            )
        machine = replace(machine, tiles_per_ipu=tiles_per_ipu)
    return machine
