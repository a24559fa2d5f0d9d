"""Vertices that write random numbers."""
