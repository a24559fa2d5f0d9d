"""What is observed during compile and run, handed to the report."""

from tilescope.engine.recorder.recorder import Recorder

__all__ = ["Recorder"]
