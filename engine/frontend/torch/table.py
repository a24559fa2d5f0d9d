"""The table of PyTorch's operators: the rule of every one, by name, and why others are refused."""

from __future__ import annotations

from tilescope.engine.frontend.torch.emission import Rule, Rules
from tilescope.engine.frontend.torch.refused import REFUSED
from tilescope.engine.frontend.torch.rules import FAMILIES

__all__ = ["RULES", "is_whole", "reason_of", "rule_of"]

#: By name, such as ``aten.add``, or ``aten.add.Tensor`` where overloads have rules of their own.
RULES: Rules = {name: rule for family in FAMILIES for name, rule in family.RULES.items()}


def rule_of(target: str) -> Rule | None:
    """Return the rule of an operator; None if there is none.

    Parameters
    ----------
    target
        Its name with the overload, such as ``aten.add.Tensor``.
    """
    return RULES.get(target) or RULES.get(target.rpartition(".")[0])


def reason_of(target: str) -> str:
    """Return why an operator is refused; "" if it is not."""
    return REFUSED.get(target.rpartition(".")[0], "")


def is_whole(target: str) -> bool:
    """Return whether an operator has a rule or is refused; PyTorch takes the others apart."""
    return rule_of(target) is not None or bool(reason_of(target))
