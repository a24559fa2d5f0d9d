"""How an operation is split over tiles, and why."""

from engine.planner.convolution import plan_convolution
from engine.planner.plan import Plan
from engine.planner.shape import ConvolutionShape

__all__ = ["ConvolutionShape", "Plan", "plan_convolution"]
