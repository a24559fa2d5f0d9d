"""A parameter of an executor, whose value groups of replicas may have of their own."""

from __future__ import annotations

from typing import Any

from poptorch.enums import CommGroupType, VariableRetrievalMode

__all__ = ["ReplicatedWeight"]


class ReplicatedWeight:
    """A parameter of an executor's module.

    Parameters
    ----------
    name
        Its module path.
    parameter
        The parameter, whose attributes this has too.
    groups
        Where `replicaGrouping` puts what it is told, by name.
    """

    def __init__(self, name: str, parameter: Any, groups: dict[str, Any]) -> None:
        self._name, self._parameter, self._groups = name, parameter, groups

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode,
    ) -> None:
        """Let groups of replicas have values of their own, the entries of the first dimension."""
        stated = (comm_group_type, shards, variable_retrieval_mode)
        self._groups[self._name] = stated

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameter, name)
