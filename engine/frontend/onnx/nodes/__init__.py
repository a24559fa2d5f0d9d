"""Nodes of a graph, imported as whole operators."""
