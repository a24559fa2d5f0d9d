"""Runs of elements: united, joined, split by owner, tested for overlap."""
