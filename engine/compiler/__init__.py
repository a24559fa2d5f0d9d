"""Passes from program trees to an executable: steps, exchanges, liveness, memory, cycles."""
