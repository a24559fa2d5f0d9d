"""How an operation is split over tiles, and why."""

from tilescope.engine.planner.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan
from tilescope.engine.planner.shape import ConvolutionShape

__all__ = ["ConvolutionShape", "Plan", "plan_convolution"]
