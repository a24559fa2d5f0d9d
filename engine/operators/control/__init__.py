"""Operators that contain regions: decisions, loops and scans."""
