"""The families of vertices that convolve, one value per family."""

from tilescope.engine.planner.families.amp import AMP
from tilescope.engine.planner.families.family import Family
from tilescope.engine.planner.families.horizontal_mac import HORIZONTAL_MAC
from tilescope.engine.planner.families.outer_product import OUTER_PRODUCT
from tilescope.engine.planner.families.slic import SLIC
from tilescope.engine.planner.families.vertical_mac import VERTICAL_MAC

__all__ = ["FAMILIES", "Family"]

#: All families; ties go to the first.
FAMILIES = (AMP, SLIC, HORIZONTAL_MAC, VERTICAL_MAC, OUTER_PRODUCT)
