"""Cycles of compute phases and of copies from and to the host."""
