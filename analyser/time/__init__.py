"""Cycles: runs, steps, occupancy and the critical path."""
