"""Passes from program trees to an executable: steps, exchanges, liveness, memory, cycles."""

from tilescope.engine.compiler.compile import Stopwatch, compile_image
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.options import CompileOptions

__all__ = ["CompileOptions", "Executable", "Stopwatch", "compile_image"]
