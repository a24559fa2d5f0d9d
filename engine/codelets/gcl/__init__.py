"""Codelets of collectives between replicas."""
