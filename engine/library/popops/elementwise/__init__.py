"""Elementwise operations, and variables filled with values."""
