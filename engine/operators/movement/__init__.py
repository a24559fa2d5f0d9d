"""Operators that move elements and compute nothing: shapes, slices, padding, repetition."""
