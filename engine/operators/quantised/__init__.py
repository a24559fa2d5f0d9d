"""Operators on quantised values: products of integers and what quantisers write."""
