"""Reductions, cumulative sums and histograms."""
