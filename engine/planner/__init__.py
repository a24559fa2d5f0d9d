"""The planner: how an operation is split over tiles."""

from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan

__all__ = ["Plan", "plan_convolution"]
