"""Replicas of a session: how many, on which part of a device, and what nodes between them mean."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import helper

from popart.builder import reserved
from popart.device import DeviceInfo
from popart.enums import CommGroupType, ReplicatedStreamMode
from popart.errors import popart_exception
from popart.options import SessionOptions
from popart.replicas import CommGroup
from tilescope.engine.operators.graphcore.collectives import COLLECTIVES, GROUP, GROUPING

__all__ = ["broadcast_inputs", "of_replica", "replicas_of", "with_groupings"]


def replicas_of(options: SessionOptions) -> int:
    """Return the number of replicas that a session asks for."""
    return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1


def of_replica(device: DeviceInfo, options: SessionOptions) -> DeviceInfo:
    """Return the part of a device that a replica has: its machine knows how many there are.

    Raises
    ------
    popart_exception
        When the replicas do not divide the IPUs.
    """
    n_replicas = replicas_of(options)
    if n_replicas == 1:
        return device
    if n_replicas < 1 or device.numIpus % n_replicas:
        raise popart_exception(
            f"replicatedGraphCount is {n_replicas}, which does not divide the {device.numIpus} IPUs"
            " of the device: ask for a device of as many IPUs as all replicas take"
        )
    n_ipus = device.numIpus // n_replicas
    machine = replace(device.machine, n_ipus=n_ipus, n_replicas=n_replicas)
    return replace(device, machine=machine)


def broadcast_inputs(proto: onnx.ModelProto) -> frozenset[str]:
    """Return the inputs of which all replicas get the same, by `InputSettings` of the builder."""
    mode = str(int(ReplicatedStreamMode.Broadcast))
    stated = {entry.key for entry in proto.metadata_props if entry.value == mode}
    names = [info.name for info in proto.graph.input]
    return frozenset(name for name in names if f"{reserved.STREAM_MODE}/{name}" in stated)


def with_groupings(proto: onnx.ModelProto, options: SessionOptions) -> onnx.ModelProto:
    """Return a model whose nodes between replicas state between how many, and how far apart.

    Raises
    ------
    popart_exception
        When groups do not divide the replicas.
    """
    n_replicas = replicas_of(options)
    nodes = [node for node in proto.graph.node if node.op_type in COLLECTIVES]
    if n_replicas == 1 or not nodes:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in copy.graph.node:
        if node.op_type not in COLLECTIVES:
            continue
        stated = {attribute.name: list(attribute.ints) for attribute in node.attribute}
        if GROUPING in stated:
            continue
        kind, size = stated.get(GROUP, (0, 0))
        grouping = CommGroup(CommGroupType(kind), size).toReplicaGrouping(n_replicas)
        numbers = [n_replicas, grouping.getStride(), grouping.getGroupSize()]
        node.attribute.append(helper.make_attribute(GROUPING, numbers))
    return copy
