"""Checks of the windows of convolutions and pools, and of padding, as their nodes are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart.errors import popart_exception

__all__ = ["check_convolution", "check_padding", "check_pool"]


def check_convolution(
    shapes: Sequence[Sequence[int] | None],
    settings: Mapping[str, Any],
    weights: str = "",
) -> None:
    """Refuse a convolution whose window does not fit.

    Parameters
    ----------
    shapes
        Of the inputs; None where they are not known.
    settings
        Attributes by name.
    weights
        Name of the second input.
    """
    if len(shapes) < 2:
        raise popart_exception(
            f"Conv requires at least two inputs: data, and weights. {len(shapes)} inputs provided."
        )
    kernel: list[int] = []
    if shapes[1] is not None:
        kernel = list(shapes[1][2:])
        stated = settings.get("kernel_shape")
        if stated and list(stated) != kernel:
            raise popart_exception(
                f"kernel_shape, {_shown(stated)}, does not match inferred shape from weight input"
                f" '{weights}', {_shown(kernel)}"
            )
    _check_window(shapes[0], kernel, settings)


def check_pool(shapes: Sequence[Sequence[int] | None], settings: Mapping[str, Any]) -> None:
    """Refuse a pool whose window does not fit; parameters as for `check_convolution`."""
    _check_window(shapes[0], list(settings["kernel_shape"]), settings)


def check_padding(shapes: Sequence[Sequence[int] | None], settings: Mapping[str, Any]) -> None:
    """Refuse padding without two numbers for every dimension."""
    shape, pads = shapes[0], settings["pads"]
    if shape and len(pads) != 2 * len(shape):
        raise popart_exception(
            f"Padding vector (length {len(pads)}) doesn't contain 2 entries per input dimension"
            f" {len(shape)}"
        )


def _check_window(
    shape: Sequence[int] | None, kernel: Sequence[int], settings: Mapping[str, Any]
) -> None:
    if not shape:
        return
    rank = len(shape) - 2
    if rank < 1:
        raise popart_exception("Input tensor has no spatial dimensions")
    lists = {
        name: list(settings.get(name) or ())
        for name in ("strides", "pads", "outPads", "dilations", "inDilations")
    }
    if lists["strides"] and len(lists["strides"]) != rank:
        raise popart_exception(
            f"Length of strides vector {len(lists['strides'])} != number of spatial dimensions"
            f" {rank}"
        )
    if lists["pads"] and len(lists["pads"]) != 2 * rank:
        raise popart_exception(
            f"Padding vector (length {len(lists['pads'])}) does not have 2 values for each spatial"
            f" dimension {rank}"
        )
    for name in ("dilations", "inDilations"):
        if lists[name] and len(lists[name]) != rank:
            raise popart_exception(
                f"Length of {name} vector {len(lists[name])} != number of spatial dimensions {rank}"
            )
    if len(kernel) != rank:
        return
    ones, zeros = [1] * rank, [0] * (2 * rank)
    pads, trims = lists["pads"] or zeros, lists["outPads"] or zeros
    sizes = []
    for axis in range(rank):
        extent = (shape[2 + axis] - 1) * (lists["inDilations"] or ones)[axis] + 1
        extent += pads[axis] + pads[axis + rank]
        spare = extent - (kernel[axis] - 1) * (lists["dilations"] or ones)[axis] - 1
        stride = (lists["strides"] or ones)[axis]
        rounds = -(-spare // stride) if settings.get("ceil_mode") else spare // stride
        sizes.append(rounds + 1 + trims[axis] + trims[axis + rank])
    if any(size < 0 for size in sizes):
        raise popart_exception(
            f"Window parameter values combine to give invalid spatial output shape: {_shown(sizes)}"
        )


def _shown(sizes: Sequence[int]) -> str:
    return f"[{' '.join(map(str, sizes))}]"
