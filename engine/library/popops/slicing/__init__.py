"""Slices, gathers, scatters and padding."""
