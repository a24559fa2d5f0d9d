"""Loads a machine by name or file, with the requested number of IPUs and tiles."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadMachine
from tilescope.engine.machine.description import describe_machine
from tilescope.engine.machine.figures import FIGURES, PARAMETER_SETS
from tilescope.engine.machine.links import TOPOLOGIES
from tilescope.engine.machine.machine import Machine
from tilescope.engine.machine.target_options import ENVIRONMENT_VARIABLE, read_target_options

__all__ = ["load_machine"]

_log = logging.getLogger(__name__)
_MOST_IPUS = 64


def load_machine(
    name: str = "gc200",
    *,
    n_ipus: int = 1,
    n_replicas: int = 1,
    tiles_per_ipu: int | None = None,
    parameter_set: str = "hardware",
    link_topology: str | None = None,
    compiles_code: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Machine:
    """Return a machine with the requested number of IPUs and tiles.

    Parameters
    ----------
    name
        A preset (see `machine_names`) or the path of a TOML file.
    n_ipus
        Number of IPUs of a replica, 1 to 64.
    n_replicas
        Replicas of a program that run at the same time, each on IPUs of its own; with them, there
        are 64 IPUs at most.
    tiles_per_ipu
        Tiles per IPU; the machine's own number if None. Smaller machines are for tests.
    parameter_set
        ``hardware`` or ``ipu_model``.
    link_topology
        ``ladder`` or ``torus``; the machine's own if None.
    compiles_code
        Whether code for the tiles takes memory. An IPU Model needs none, as it runs on the host:
        ``compileIPUCode`` of Poplar's. Cycles are the same.
    environ
        Mapping with POPLAR_TARGET_OPTIONS, which takes precedence; the process's environment if
        None.

    Raises
    ------
    BadMachine
        The name or set is unknown, the file is invalid, or a number is out of range.
    BadOption
        POPLAR_TARGET_OPTIONS is malformed or has an unknown key or value.
    """
    description = describe_machine(name)
    parameter_set_: object = parameter_set  # untrusted: callers may pass any type
    if not isinstance(parameter_set_, str) or parameter_set_ not in PARAMETER_SETS:
        raise BadMachine(
            f"Unknown parameter set {shown(parameter_set)}; choose hardware or ipu_model"
        )
    compiles_code_: object = compiles_code
    if not isinstance(compiles_code_, bool):
        raise BadMachine(f"compiles_code is {shown(compiles_code)}; choose True or False")
    if not compiles_code and parameter_set != "ipu_model":
        raise BadMachine(
            "The hardware runs compiled code: compiles_code may be false with the parameter set"
            " ipu_model only"
        )
    options = read_target_options(environ)
    topology = link_topology or description.link_topology
    if "ipuLinkTopology" in options:
        topology = "torus" if options["ipuLinkTopology"] == "torus" else "ladder"
    if topology not in TOPOLOGIES:
        raise BadMachine(f"link topology is {topology!r}; choose ladder or torus")
    figures = description.by_set[parameter_set]
    values = {s.name: figures[s.name].value for s in FIGURES.values() if s.is_used}
    _check_sizes(description.name, n_ipus, tiles_per_ipu, int(values["tiles_per_ipu"]))
    _check_replicas(n_ipus, n_replicas, options)
    if tiles_per_ipu is not None:
        values["tiles_per_ipu"] = tiles_per_ipu
    names = {field.name for field in fields(Machine)}
    machine = Machine(
        name=description.name,
        architecture=description.architecture,
        parameter_set=parameter_set,
        n_ipus=n_ipus,
        link_topology=topology,
        target_options=tuple(sorted(options.items())),
        compiles_code=compiles_code,
        n_replicas=n_replicas,
        **{key: value for key, value in values.items() if key in names},  # type: ignore[arg-type]
    )
    _log.info(
        "target %s (%s): %d IPUs as a %s, %d tiles each, %d bytes a tile, %g GHz",
        machine.name,
        parameter_set,
        n_ipus,
        topology,
        machine.tiles_per_ipu,
        machine.bytes_per_tile,
        machine.clock_hz / 1e9,
    )
    return machine


def _check_sizes(name: str, n_ipus: int, tiles_per_ipu: int | None, most_tiles: int) -> None:
    for subject, number in (("number of IPUs", n_ipus), ("number of tiles", tiles_per_ipu)):
        is_missing = number is None and subject != "number of IPUs"
        if not isinstance(number, int) and not is_missing:
            raise BadMachine(f"expected an integer for the {subject}, got {shown(number)}")
    if not 1 <= n_ipus <= _MOST_IPUS:
        raise BadMachine(f"n_ipus is {n_ipus}; n_ipus must be between 1 and {_MOST_IPUS}")
    if tiles_per_ipu is not None and not 1 <= tiles_per_ipu <= most_tiles:
        raise BadMachine(f"tiles_per_ipu is {tiles_per_ipu}; a {name} has 1 to {most_tiles} tiles")


def _check_replicas(n_ipus: int, n_replicas: object, options: Mapping[str, str]) -> None:
    if not isinstance(n_replicas, int) or isinstance(n_replicas, bool):
        raise BadMachine(f"expected an integer for the number of replicas, got {shown(n_replicas)}")
    if not 1 <= n_replicas <= _MOST_IPUS // n_ipus:
        raise BadMachine(
            f"n_replicas is {n_replicas}; with {n_ipus} IPUs each, there are 1 to"
            f" {_MOST_IPUS // n_ipus} replicas, since links reach {_MOST_IPUS} IPUs"
        )
    domain = int(options.get("ipuLinkDomainSize", _MOST_IPUS))
    n_all = n_ipus * n_replicas
    if n_all > domain:
        stated = f"n_ipus is {n_ipus}" if n_replicas == 1 else f"The replicas have {n_all} IPUs"
        raise BadMachine(
            f"{stated}, more than the link domain of {domain} in {ENVIRONMENT_VARIABLE};"
            " use fewer IPUs or a larger ipuLinkDomainSize"
        )
