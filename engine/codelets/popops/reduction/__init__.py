"""Vertices of reductions, cumulative sums and histograms."""
