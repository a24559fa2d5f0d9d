"""IPUs of the nodes of a model, as options and attributes of nodes say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from popart.device import DeviceInfo
from popart.enums import VirtualGraphMode
from popart.errors import popart_exception
from popart.locations import has_phases
from popart.options import SessionOptions
from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Model, Operation
from tilescope.engine.transform.balance import balance
from tilescope.engine.transform.split import split, unplaced

__all__ = ["check_ipus", "on_virtual_graphs"]


def on_virtual_graphs(model: Model, options: SessionOptions, device: DeviceInfo) -> Model:
    """Return a model whose operations are on the IPUs that a session asks for.

    Parameters
    ----------
    model
        As it was loaded.
    options
        Of the session.
    device
        The device.

    Raises
    ------
    popart_exception
        When only some of the nodes have an IPU, or the model cannot be split.
    """
    mode = options.virtualGraphMode
    if mode is VirtualGraphMode.Auto and device.numIpus > 1:
        return _balanced(unplaced(model), options, device)
    if has_phases(options):
        n_stages = int(options.executionPhaseSettings.stages) if device.numIpus > 1 else 0
        return _by_phase(model, n_stages)
    if mode is not VirtualGraphMode.Manual:
        return unplaced(model)
    counts = Counter(operation.placement.ipu for operation in model.operations)
    if None in counts and len(counts) > 1:
        stated = "".join(f"  {ipu} : {n}\n" for ipu, n in sorted(_stated(counts).items()))
        without = "".join(f"  {op}\n" for op in model.operations if op.placement.ipu is None)
        raise popart_exception(
            "Either all Ops must have their virtual graph ids set, or none must. Op count per"
            f" virtual graph id\n{stated}Ops with no virtual graph id :  \n{without}"
        )
    return model


def _stated(counts: Counter[int | None]) -> dict[int, int]:
    return {ipu: n for ipu, n in counts.items() if ipu is not None}


def _by_phase(model: Model, n_stages: int) -> Model:
    """Return a model whose phases are on IPUs in turn; on the only one if there are no stages.

    Source: graphcore/popart, willow/include/popart/sessionoptions.hpp, ExecutionPhaseSettings:
    stages.
    """
    return replace(
        model,
        operations=tuple(
            replace(op, placement=replace(op.placement, ipu=_turn(op, n_stages)))
            for op in model.operations
        ),
    )


def _turn(operation: Operation, n_stages: int) -> int | None:
    phase = operation.placement.phase
    return None if phase is None or not n_stages else phase % n_stages


def _balanced(model: Model, options: SessionOptions, device: DeviceInfo) -> Model:
    ratios = list(options.virtualGraphSplitRatios)
    if ratios and len(ratios) != device.numIpus:
        raise popart_exception("The size of virtualGraphSplitRatios must be equal to num_ipus.")
    if any(not 0 < ratio < 1 for ratio in ratios):
        raise popart_exception("virtualGraphSplitRatios[i] must be in the rage (0, 1).")
    if ratios and abs(sum(ratios) - 1) > 1e-6:
        raise popart_exception(
            f"Sum of virtualGraphSplitRatios[i] must be equal to 1.0, but found {sum(ratios):g}."
        )
    ipu_bytes = device.machine.capacity_bytes // device.numIpus
    try:
        return split(model, balance(model, device.numIpus, ipu_bytes, ratios))
    except BadModel as error:
        raise popart_exception(f"[AutoVirtualGraph] Couldn't find enough splits: {error}") from None


def check_ipus(model: Model, device: DeviceInfo) -> None:
    """Refuse nodes on IPUs that the device does not have.

    Raises
    ------
    popart_exception
        Names the node.
    """
    for operation in model.operations:
        ipu = operation.placement.ipu
        if ipu is not None and ipu >= device.numIpus:
            inputs = ", ".join(f"{value.name}_c{ipu}" for value in operation.operands)
            outputs = ", ".join(value.name for value in operation.results)
            raise popart_exception(
                f"Op({operation.name}, {operation.source}, inputs=[{inputs}], outputs=[{outputs}])"
                f" has been assigned to an invalid virtual graph {ipu}. numIPUs ="
                f" {device.numIpus}."
            )
