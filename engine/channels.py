"""Channels of the engine's own tracepoints, which a trace of the host shows beside a program's.

Names are those of Poplar's libraries: what a program has learnt to look for is where it was.

Source: graphcore/poplibs, lib/poplibs_support/TraceChannels.cpp; graphcore/poptorch,
python/__init__.py; public documentation of libpvti.
"""

from __future__ import annotations

from tilescope.tracepoints import create_channel

__all__ = ["DATA", "DRIVERS", "FRAMEWORK", "POPLAR", "POPLIN"]

#: Data that a training loads.
DATA = create_channel("dataset")
#: What moves between host and device.
DRIVERS = create_channel("Drivers")
#: Models and the passes over them.
FRAMEWORK = create_channel("Framework")
#: Compilation, executables, runs, and the report.
POPLAR = create_channel("Poplar")
#: Plans of products and convolutions.
POPLIN = create_channel("graphConstruction/poplin")
