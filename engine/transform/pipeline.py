"""The passes between a front end and the lowering, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from tilescope.engine.errors import BadOption
from tilescope.engine.host.memory import uncollected
from tilescope.engine.ir import Model, check_model
from tilescope.engine.transform.activations import (
    find_gelu,
    find_hard_swish,
    find_swish,
    find_tanh_gelu,
)
from tilescope.engine.transform.decompose import decompose
from tilescope.engine.transform.fold_scale import fold_scale
from tilescope.engine.transform.normalisation import find_layer_norm, find_rms_norm
from tilescope.engine.transform.powers import simplify_powers
from tilescope.engine.transform.pre_scale import pre_scale
from tilescope.engine.transform.prune import prune
from tilescope.engine.transform.softmax import find_softmax

__all__ = ["PASSES", "transform"]

#: Every pass by name, in the order they run; `engine.options.patterns` describes the rewrites.
PASSES: Mapping[str, Callable[[Model], Model]] = MappingProxyType(
    {
        "decompose": decompose,
        "pow_pattern": simplify_powers,
        "layer_norm_pattern": find_layer_norm,
        "rms_norm_pattern": find_rms_norm,
        "softmax_pattern": find_softmax,
        "erf_gelu_pattern": find_gelu,
        "gelu_pattern": find_tanh_gelu,
        "swish_pattern": find_swish,
        "hard_swish_pattern": find_hard_swish,
        "pre_scale": pre_scale,
        "fold_batch_norm": fold_scale,
        "prune": prune,
    }
)


@uncollected()
def transform(model: Model, without: Collection[str] = ()) -> Model:
    """Return the model after all passes; it is checked after each that changes it.

    Parameters
    ----------
    model
        As a front end built it.
    without
        Names of passes to leave out.

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
    original = model
    for name, apply in PASSES.items():
        if name in without:
            continue
        transformed = apply(model)
        if transformed is not model:
            check_model(transformed)
        model = transformed
    return replace(
        model,
        data=original.data,
        counts=original.counts,
        notices=original.notices,
        opset=original.opset,
        front_end=original.front_end,
    )
