"""Alignment of the things of two reports: by structure, by key and by name."""
