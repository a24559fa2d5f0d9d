"""Elementwise operators, activations and casts."""
