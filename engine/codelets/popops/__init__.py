"""Vertices of operations on tensors, by subject."""
