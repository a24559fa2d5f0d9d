"""Faults that the product must survive: hostile requests and hostile models, in large numbers."""
