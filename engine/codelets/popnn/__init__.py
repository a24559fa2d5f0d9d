"""Vertices of neural networks: pools, non-linearities, norms."""
