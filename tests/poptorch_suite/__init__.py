"""Runs PopTorch's own tests: `make poptorch-suite`."""
