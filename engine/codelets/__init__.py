"""Vertex types by subject: kernel, cycle law and code bytes side by side."""
