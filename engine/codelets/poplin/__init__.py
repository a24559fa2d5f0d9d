"""Vertices of products and convolutions, and the cycle laws of each unit that computes them."""
