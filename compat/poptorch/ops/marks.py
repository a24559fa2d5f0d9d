"""Marks of tensors, which return them: losses, checkpoints, prints, shares of memory."""

from __future__ import annotations

from typing import Any

import torch

from poptorch._logging import warn_once
from poptorch.enums import MatMulSerializationMode, OverlapMode
from poptorch.errors import createPoptorchError
from poptorch.trees import map_tensors
from tilescope.engine.frontend.torch import markers

__all__ = [
    "check_tensor",
    "identity_loss",
    "ipu_print_tensor",
    "nop",
    "recomputationCheckpoint",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]

#: How `ipu_print_tensor` writes numbers by default.
_LOOKS = (1000, 3, 80, 4, "auto", ", ", "(", ")")


def check_tensor(value: Any, message: str) -> None:
    """Refuse what is not a tensor.

    Parameters
    ----------
    value
        What was given.
    message
        What takes a tensor.

    Raises
    ------
    Error
        With the type.
    """
    if not isinstance(value, torch.Tensor):
        raise createPoptorchError(f"{message} {type(value)} is not supported.")


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Return the mean or sum of a tensor, or itself, as the loss of a model.

    Parameters
    ----------
    x
        The tensor.
    reduction
        ``mean``, ``sum`` or ``none``.

    Raises
    ------
    AssertionError
        When the reduction is unknown.
    """
    assert reduction in ("sum", "mean", "none"), "Unsupported reduction type!"
    return markers.identity_loss(x, reduction)


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """Return a tensor, which the device prints.

    Parameters
    ----------
    tensor
        The tensor.
    title
        Printed before it.
    print_gradient
        Whether its gradient is printed, too.
    summarise_threshold, edge_items, max_line_width, digits, float_format
        How numbers are written; without effect.
    separator, open_bracket, close_bracket
        What stands between and around them; without effect.

    Raises
    ------
    Error
        When it is not a tensor.
    """
    check_tensor(tensor, "ipu print tensor must take a torch.tensor argument.")
    looks = (
        summarise_threshold,
        edge_items,
        max_line_width,
        digits,
        float_format,
        separator,
        open_bracket,
        close_bracket,
    )
    if looks != _LOOKS:
        warn_once("the format of ipu_print_tensor", "tensors are printed in one form")
    return markers.print_tensor(tensor, title, prints_gradient=print_gradient)


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor through an operation that stays in the program.

    Raises
    ------
    Error
        When it is not a tensor.
    """
    check_tensor(tensor, "nop must take a torch.tensor argument.")
    return markers.nop(tensor)


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Return tensors, which stay for the backward pass: it computes what lies between again.

    Raises
    ------
    ValueError
        When one is not a tensor.
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        kept = recomputationCheckpoint(*tensors[0])
        return type(tensors[0])(kept if isinstance(kept, tuple) else (kept,))
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError("All inputs must be tensors")
    kept = tuple(markers.recomputation_checkpoint(tensor) for tensor in tensors)
    return kept[0] if len(kept) == 1 else kept


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """Return a product that is computed in parts.

    Parameters
    ----------
    lhs, rhs
        What is multiplied.
    mode
        Which dimension is in parts.
    factor
        Number of parts.
    keep_precision
        Whether parts are added in float.

    Raises
    ------
    AssertionError
        When an argument has another type.
    """
    for value, kind in ((mode, MatMulSerializationMode), (factor, int), (keep_precision, bool)):
        assert isinstance(value, kind), f"{value!r} is not a {kind.__name__}"
    return markers.serialized_matmul(lhs, rhs, mode.value, factor, keeps_precision=keep_precision)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Return a tensor, whose operation may take a share of the memory while it runs.

    Parameters
    ----------
    tensor
        The result of a product or convolution.
    available_memory_proportion
        The share, above 0 and up to 1.

    Raises
    ------
    Error
        When it is not a tensor.
    """
    check_tensor(tensor, "You may only set available memory for torch.tensor values.")
    return markers.available_memory(tensor, available_memory_proportion)


def _with_overlap(tensors: Any, mode: OverlapMode, what: str) -> Any:
    def check(tensor: Any) -> Any:
        check_tensor(tensor, f"You may only set overlap for torch.tensor {what}.")
        if mode is not OverlapMode.NoOverlap:
            warn_once(f"set_overlap_for_{what[:-1]}", "transfers with the host do not overlap")
        return tensor

    check_empty = not isinstance(tensors, (torch.Tensor, tuple, list, dict))
    return check(tensors) if check_empty else map_tensors(check, tensors)


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Return inputs; that their transfer overlaps with computing has no effect.

    Raises
    ------
    Error
        When they are not tensors.
    """
    return _with_overlap(input_tensors, mode, "inputs")


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Return outputs; that their transfer overlaps with computing has no effect.

    Raises
    ------
    Error
        When they are not tensors.
    """
    return _with_overlap(output_tensors, mode, "outputs")
