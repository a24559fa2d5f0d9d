"""Tensors: views on variables, none of which moves data."""
