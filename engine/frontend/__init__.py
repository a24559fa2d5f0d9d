"""From a model file to the operator graph."""
