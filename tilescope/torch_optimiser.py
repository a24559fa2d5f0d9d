"""Optimisers of PyTorch as those of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilescope.engine.training import Descent

__all__ = ["optimiser_of"]

#: Classes of the engine by those of PyTorch, and names of their numbers that differ.
_KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "Adadelta": ("AdaDelta", {}),
    "Adagrad": ("Adagrad", {"initial_accumulator_value": "initial"}),
    "Adam": ("Adam", {}),
    "AdamW": ("AdamW", {}),
    "Adamax": ("AdaMax", {}),
    "RMSprop": ("RmsProp", {"centered": "is_centered"}),
    "SGD": ("Sgd", {}),
}
#: Numbers of PyTorch that change how steps are computed, not what comes out.
_WITHOUT_EFFECT = frozenset(
    ("params", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay")
)


def optimiser_of(optimiser: Any) -> Descent:
    """Return the optimiser of the engine that computes what one of PyTorch computes.

    Parameters
    ----------
    optimiser
        A ``torch.optim.Optimizer`` with one group of parameters.

    Raises
    ------
    BadOption
        When the engine has no such optimiser, or a number of it that is set.
    """
    from tilescope import engine
    from tilescope.engine.errors import BadOption

    kind = type(optimiser).__name__
    if kind not in _KINDS:
        raise BadOption(f"Optimizer {kind} is not supported: expected one of {', '.join(_KINDS)}")
    if len(optimiser.param_groups) > 1:
        raise BadOption(
            f"{kind} has {len(optimiser.param_groups)} groups of parameters: use one, or"
            " for_training with specific numbers"
        )
    name, renamed = _KINDS[kind]
    numbers: dict[str, Any] = {}
    for key, value in optimiser.param_groups[0].items():
        if key in _WITHOUT_EFFECT:
            continue
        if key in ("maximize", "amsgrad"):
            if value:
                raise BadOption(f"{kind} with {key}=True is not supported: leave it out")
        elif key == "betas":
            numbers["beta1"], numbers["beta2"] = (float(beta) for beta in value)
        else:
            numbers[renamed.get(key, key)] = value if isinstance(value, bool) else float(value)
    made: Descent = getattr(engine, name)(**numbers)
    return made
