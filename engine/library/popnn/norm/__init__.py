"""Normalisations: batch, group, instance, layer and RMS."""
