"""Bytes: tiles, variables, liveness, addresses and code."""
