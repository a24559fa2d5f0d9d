"""Passes from program trees to an executable: steps, exchanges, liveness, memory, cycles."""

from tilescope.engine.compiler.compile import compile_programs
from tilescope.engine.compiler.executable import Executable

__all__ = ["Executable", "compile_programs"]
