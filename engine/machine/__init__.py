"""The machine: tiles, bytes, clocks, exchange, sync, links; presets as data with sources."""

from tilescope.engine.machine.description import (
    Description,
    Figure,
    describe_machine,
    machine_names,
)
from tilescope.engine.machine.figures import FIGURES, PARAMETER_SETS, FigureSpec
from tilescope.engine.machine.geometry import partners, tile_rows
from tilescope.engine.machine.links import TOPOLOGIES, Link, link_loads, route
from tilescope.engine.machine.load import load_machine
from tilescope.engine.machine.machine import Machine
from tilescope.engine.machine.side_by_side import FigureRow, figure_rows

__all__ = [
    "FIGURES",
    "PARAMETER_SETS",
    "TOPOLOGIES",
    "Description",
    "Figure",
    "FigureRow",
    "FigureSpec",
    "Link",
    "Machine",
    "describe_machine",
    "figure_rows",
    "link_loads",
    "load_machine",
    "machine_names",
    "partners",
    "route",
    "tile_rows",
]
