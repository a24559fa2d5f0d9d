"""The version of PopTorch whose names and defaults the module has."""

__all__ = ["__version__"]

#: Source: graphcore/poptorch, version.json of its last public state.
__version__ = "3.4.0"
