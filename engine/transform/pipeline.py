"""The passes between a front end and the lowering, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model, check_model
from tilescope.engine.transform.decompose import decompose
from tilescope.engine.transform.fold_scale import fold_scale
from tilescope.engine.transform.prune import prune

__all__ = ["PASSES", "transform"]

#: Every pass by name, in the order they run.
PASSES: Mapping[str, Callable[[Model], Model]] = MappingProxyType(
    {
        "decompose": decompose,
        "fold_scale": fold_scale,
        "prune": prune,
    }
)


def transform(model: Model, without: Collection[str] = ()) -> Model:
    """Return the model after all passes; it is checked after each of them.

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
    for name, apply in PASSES.items():
        if name not in without:
            model = apply(model)
            check_model(model)
    return model
