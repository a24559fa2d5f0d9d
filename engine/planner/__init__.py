"""The planner: how an operation is split over tiles."""
