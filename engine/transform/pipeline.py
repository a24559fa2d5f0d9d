"""The passes between a front end and the lowering, by phase, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tilescope.collection import without_collection
from tilescope.engine.channels import FRAMEWORK
from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model, check_model
from tilescope.engine.transform.activations import (
    find_gelu,
    find_hard_swish,
    find_swish,
    find_tanh_gelu,
)
from tilescope.engine.transform.decompose import decompose
from tilescope.engine.transform.differentiate import differentiate
from tilescope.engine.transform.fold_scale import fold_scale
from tilescope.engine.transform.merge_collectives import merge_collectives
from tilescope.engine.transform.normalisation import find_layer_norm, find_rms_norm
from tilescope.engine.transform.offload import offload
from tilescope.engine.transform.overflow import count_overflows
from tilescope.engine.transform.place import place
from tilescope.engine.transform.powers import simplify_powers
from tilescope.engine.transform.pre_scale import pre_scale
from tilescope.engine.transform.prune import prune
from tilescope.engine.transform.recompute import recompute
from tilescope.engine.transform.schedule import schedule
from tilescope.engine.transform.serialise import serialise_batch
from tilescope.engine.transform.softmax import find_softmax
from tilescope.engine.transform.softmax_loss import find_softmax_loss
from tilescope.engine.transform.stages import give_stages
from tilescope.tracepoints import Tracepoint

__all__ = ["PASSES", "Pass", "Phase", "transform"]


class Phase(StrEnum):
    """A stage between a front end, which imports, and the lowering, which places on tiles."""

    #: Operators become those that the engine has.
    DECOMPOSE = "decompose"
    #: Groups of operations become one that is cheaper; `engine.options.patterns` describes them.
    REWRITE = "rewrite"
    #: The batch gets its parts, and training its backward pass.
    DIFFERENTIATE = "differentiate"
    #: Factors move into weights that stay as they are, as other patterns do.
    SCALE = "scale"
    #: What runs.
    SCHEDULE = "schedule"
    #: Where and when it runs on several IPUs; after what depends on the memory of a machine.
    PLACE = "place"


@dataclass(frozen=True)
class Pass:
    """A function from model to model.

    Attributes
    ----------
    phase
        When it runs.
    apply
        Returns the model itself where nothing changes.
    """

    phase: Phase
    apply: Callable[[Model], Model]


#: Every pass by name, in the order they run: by phase.
PASSES: Mapping[str, Pass] = MappingProxyType(
    {
        "give_stages": Pass(Phase.DECOMPOSE, give_stages),
        "decompose": Pass(Phase.DECOMPOSE, decompose),
        "pow_pattern": Pass(Phase.REWRITE, simplify_powers),
        "layer_norm_pattern": Pass(Phase.REWRITE, find_layer_norm),
        "rms_norm_pattern": Pass(Phase.REWRITE, find_rms_norm),
        "softmax_pattern": Pass(Phase.REWRITE, find_softmax),
        "erf_gelu_pattern": Pass(Phase.REWRITE, find_gelu),
        "gelu_pattern": Pass(Phase.REWRITE, find_tanh_gelu),
        "swish_pattern": Pass(Phase.REWRITE, find_swish),
        "hard_swish_pattern": Pass(Phase.REWRITE, find_hard_swish),
        "softmax_loss": Pass(Phase.DIFFERENTIATE, find_softmax_loss),
        "serialise_batch": Pass(Phase.DIFFERENTIATE, serialise_batch),
        "differentiate": Pass(Phase.DIFFERENTIATE, differentiate),
        "recompute": Pass(Phase.DIFFERENTIATE, recompute),
        "count_overflows": Pass(Phase.DIFFERENTIATE, count_overflows),
        "pre_scale": Pass(Phase.SCALE, pre_scale),
        "fold_batch_norm": Pass(Phase.SCALE, fold_scale),
        "prune": Pass(Phase.SCHEDULE, prune),
        "offload": Pass(Phase.PLACE, offload),
        "schedule": Pass(Phase.PLACE, schedule),
        "place": Pass(Phase.PLACE, place),
        "merge_collectives": Pass(Phase.PLACE, merge_collectives),
    }
)


@without_collection()
def transform(
    model: Model, without: Collection[str] = (), phases: Collection[Phase] = tuple(Phase)
) -> Model:
    """Return the model after all passes; it is checked after each that changes it.

    Parameters
    ----------
    model
        As a front end built it.
    without
        Names of passes to leave out.
    phases
        Whose passes are applied.

    Raises
    ------
    BadOption
        When there is no pass of such a name.
    BadModel
        When the model is not well-formed.
    """
    for name in without:
        if name not in PASSES:
            raise BadOption(f"Unknown pass {name!r}: the passes are {', '.join(PASSES)}")
    for name, step in PASSES.items():
        if name in without or step.phase not in phases:
            continue
        with Tracepoint(FRAMEWORK, f"transform.{name}"):
            transformed = step.apply(model)
        if transformed is not model:
            check_model(transformed)
        model = transformed
    return model
