"""Faults that users and strangers cause, many of each kind: ``python -m tests.faults``."""
