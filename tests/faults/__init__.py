"""Fault injection: damaged and hostile reports, hostile files."""
