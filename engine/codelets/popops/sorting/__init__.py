"""Vertices of sorting networks."""
