"""Sparse products, as PopLibs' popsparse."""
