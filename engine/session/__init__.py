"""From a model or a graph to results and a report: compile, load, run."""
