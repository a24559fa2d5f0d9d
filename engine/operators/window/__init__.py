"""Convolutions and pools: operators over windows."""
