"""Compilation, caching and identity of kernels."""
