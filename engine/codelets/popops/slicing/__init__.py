"""Vertices that read or write at positions which the data give."""
