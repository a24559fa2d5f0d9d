"""Compiler passes over flat arrays, compiled with numba."""
