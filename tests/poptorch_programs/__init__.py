"""Runs public programs of PopTorch unchanged: `make poptorch-programs`."""
