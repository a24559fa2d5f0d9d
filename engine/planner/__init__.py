"""How an operation is split over tiles, and why."""

from engine.planner.convolution import ConvolutionShape, plan_convolution
from engine.planner.plan import Plan

__all__ = ["ConvolutionShape", "Plan", "plan_convolution"]
