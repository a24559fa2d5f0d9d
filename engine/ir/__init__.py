"""The operator graph every front end builds: values, operations, regions, operator records."""

from tilescope.engine.ir.builder import IrBuilder
from tilescope.engine.ir.check import check_model
from tilescope.engine.ir.hints import Hints
from tilescope.engine.ir.location import KINDS, ON_CHIP, Location, LocationRule, Locations
from tilescope.engine.ir.model import Count, Model, read_from_outside, walk
from tilescope.engine.ir.operation import (
    ENGINE_DOMAIN,
    Carries,
    Emitter,
    Expansion,
    Node,
    Operation,
    Operator,
    PartsRule,
    Region,
    ResultType,
    TrainingPass,
)
from tilescope.engine.ir.parts import WHOLE_BATCH, BatchParts, Parts
from tilescope.engine.ir.placement import UNPLACED, Placement
from tilescope.engine.ir.replica_group import ReplicaGroup
from tilescope.engine.ir.training import (
    RECOMPUTATIONS,
    Optimiser,
    Recomputation,
    Training,
    Updater,
)
from tilescope.engine.ir.value import (
    MOST_DIMS,
    Constant,
    NarrowConstant,
    Parameter,
    Purpose,
    State,
    Update,
    Value,
)

__all__ = [
    "ENGINE_DOMAIN",
    "KINDS",
    "MOST_DIMS",
    "ON_CHIP",
    "RECOMPUTATIONS",
    "UNPLACED",
    "WHOLE_BATCH",
    "BatchParts",
    "Carries",
    "Constant",
    "Count",
    "Emitter",
    "Expansion",
    "Hints",
    "IrBuilder",
    "Location",
    "LocationRule",
    "Locations",
    "Model",
    "NarrowConstant",
    "Node",
    "Operation",
    "Operator",
    "Optimiser",
    "Parameter",
    "Parts",
    "PartsRule",
    "Placement",
    "Purpose",
    "Recomputation",
    "Region",
    "ReplicaGroup",
    "ResultType",
    "State",
    "Training",
    "TrainingPass",
    "Update",
    "Updater",
    "Value",
    "check_model",
    "read_from_outside",
    "walk",
]
