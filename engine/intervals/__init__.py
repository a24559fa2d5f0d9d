"""Runs of elements: union, join, split by owner, overlap tests."""
