"""The table of PyTorch's operators: the rule of every one, by name."""

from __future__ import annotations

from tilescope.engine.frontend.torch.emission import Rule, Rules
from tilescope.engine.frontend.torch.rules import FAMILIES

__all__ = ["RULES", "is_whole", "rule_of"]

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


def is_whole(target: str) -> bool:
    """Return whether an operator has a rule; the others are left to PyTorch to take apart."""
    return rule_of(target) is not None
