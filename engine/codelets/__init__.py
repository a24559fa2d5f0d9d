"""Vertex types: kernels, cycle laws and code sizes."""
