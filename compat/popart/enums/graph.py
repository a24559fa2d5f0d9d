"""Enumerations about tensors and nodes of a graph."""

from __future__ import annotations

from popart.enumeration import Enumeration

__all__ = [
    "CollectiveOperator",
    "CommGroupType",
    "ExchangeStrategy",
    "InitType",
    "MeanReductionStrategy",
    "RecomputeType",
    "ReductionType",
    "ReplicatedStreamMode",
    "ReplicatedTensorSharding",
    "ScatterReduction",
    "TensorRemapType",
    "TensorStorage",
    "TileSet",
    "VariableRetrievalMode",
]


class InitType(Enumeration):
    """Content of a tensor that ``aiGraphcore.init`` makes."""

    NoInit = 0
    Zero = 1


class TensorRemapType(Enumeration):
    """In which passes ``aiGraphcore.tensorremap`` lays a tensor out anew."""

    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class TileSet(Enumeration):
    """Tiles that compute, or those kept for transfers with the host."""

    Compute = 0
    IO = 1


class ExchangeStrategy(Enumeration):
    """When an input or anchor is exchanged with the host."""

    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class ReplicatedStreamMode(Enumeration):
    """Whether replicas get inputs of their own or the same one."""

    Broadcast = 0
    Replicate = 1


class ReductionType(Enumeration):
    """How a loss, or what replicas and micro-batches add up, is reduced."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(Enumeration):
    """When a mean over micro-batches and replicas is divided."""

    Running = 0
    Post = 1


class ScatterReduction(Enumeration):
    """How ``aiGraphcore.scatterreduce`` joins entries of one index."""

    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class CollectiveOperator(Enumeration):
    """How a collective joins the values of replicas."""

    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7
    Local = 8


class RecomputeType(Enumeration):
    """Whether an output is kept for the backward pass or computed again."""

    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class CommGroupType(Enumeration):
    """Which replicas form a group."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class VariableRetrievalMode(Enumeration):
    """Which replicas return a variable to the host."""

    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2


class TensorStorage(Enumeration):
    """Memory of the tiles, or that of the host."""

    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(Enumeration):
    """Whether replicas hold parts of a tensor or the whole."""

    Off = 0
    On = 1
