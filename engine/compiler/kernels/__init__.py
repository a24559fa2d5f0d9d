"""Compiled passes of the compiler over flat arrays."""
