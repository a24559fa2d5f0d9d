"""The machine: tiles, bytes, clocks, exchange, sync, host link; presets as data with sources."""

from engine.machine.machine import Machine, load_machine, machine_figures, machine_names

__all__ = ["Machine", "load_machine", "machine_figures", "machine_names"]
