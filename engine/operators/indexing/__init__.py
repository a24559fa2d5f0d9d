"""Operators that read, write or keep elements at positions which the data give."""
