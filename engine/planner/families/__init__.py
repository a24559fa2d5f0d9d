"""The families of vertices that can convolve, one value for each."""

from engine.planner.families.amp import AMP
from engine.planner.families.family import Family, Grouping
from engine.planner.families.vertical_mac import VERTICAL_MAC_FAMILY

__all__ = ["FAMILIES", "Family", "Grouping"]

#: All families, in the order in which equal costs are decided.
FAMILIES = (AMP, VERTICAL_MAC_FAMILY)
