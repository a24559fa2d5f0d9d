"""Passes from program trees to an executable: steps, exchanges, liveness, memory, cycles."""

from engine.compiler.compile import compile_programs
from engine.compiler.executable import Executable

__all__ = ["Executable", "compile_programs"]
