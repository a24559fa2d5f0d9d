"""Recording of compilations and runs into the report."""

from tilescope.engine.recorder.recorder import Recorder

__all__ = ["Recorder"]
