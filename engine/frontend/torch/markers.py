"""Operators that say something of a module to the engine; in PyTorch, they compute what it says.

They are PyTorch's operators ``tilescope::…``, which an export keeps. This module imports PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tilescope.engine.errors import BadInput

__all__ = [
    "available_memory",
    "begin_block",
    "custom_op",
    "identity_loss",
    "nop",
    "placed",
    "print_tensor",
    "recomputation_checkpoint",
    "serialized_matmul",
]

_NONE = -1


def _same_gradient(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return (gradient, *(None,) * context.n_others)


def _marker(name: str, schema: str) -> Any:
    """Define an operator that returns its operand, with the gradient of that."""
    n_others = schema.count(",")

    def same(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.clone()

    definition = torch.library.custom_op(
        f"tilescope::{name}", same, mutates_args=(), schema=f"({schema}) -> Tensor"
    )
    definition.register_fake(lambda x, *_: torch.empty_like(x))

    def note(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.n_others = n_others

    definition.register_autograd(_same_gradient, setup_context=note)
    return definition


_begin_block = _marker("begin_block", "Tensor x, int ipu, int stage, int phase")
_nop = _marker("nop", "Tensor x")
_print_tensor = _marker("print_tensor", "Tensor x, str title, bool prints_gradient")
_available_memory = _marker("available_memory", "Tensor x, float share")
_checkpoint = _marker("recomputation_checkpoint", "Tensor x")


def begin_block(
    x: torch.Tensor, ipu: int | None = None, stage: int | None = None, phase: int | None = None
) -> torch.Tensor:
    """Return a tensor; what is computed after it runs elsewhere, until the next mark.

    Parameters
    ----------
    x
        Any tensor that the rest of the module uses.
    ipu, stage, phase
        As those of `tilescope.engine.ir.Placement`.
    """
    numbers = [_NONE if number is None else number for number in (ipu, stage, phase)]
    return _begin_block(x, *numbers)


@contextmanager
def placed(
    ipu: int | None = None, stage: int | None = None, phase: int | None = None
) -> Iterator[None]:
    """Run what a block computes elsewhere; it has precedence over `begin_block`.

    Parameters
    ----------
    ipu, stage, phase
        As those of `tilescope.engine.ir.Placement`.
    """
    numbers = {"ipu": ipu, "stage": stage, "phase": phase}
    with torch.fx.traceback.annotate({key: n for key, n in numbers.items() if n is not None}):
        yield


def nop(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor by an operation that computes nothing and that no pass removes."""
    return _nop(x)


def print_tensor(x: torch.Tensor, title: str = "", *, prints_gradient: bool = True) -> torch.Tensor:
    """Return a tensor, which the device prints whenever it is computed."""
    return _print_tensor(x, title, prints_gradient)


def available_memory(x: torch.Tensor, share: float) -> torch.Tensor:
    """Return a tensor; the operation that computes it may use a share of the tiles' memory.

    Raises
    ------
    BadInput
        When the share is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise BadInput(f"The share of available memory must be above 0 and at most 1, got {share}")
    return _available_memory(x, float(share))


def recomputation_checkpoint(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is kept for the backward pass where others are computed again."""
    return _checkpoint(x)


def _reduced(x: torch.Tensor, reduction: str) -> torch.Tensor:
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x


def _copy_of_reduced(x: torch.Tensor, reduction: str) -> torch.Tensor:
    return _reduced(x, reduction).clone()


def _note_shape(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shape, ctx.reduction = inputs[0].shape, inputs[1]


def _loss_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    factor = 1 / ctx.shape.numel() if ctx.reduction == "mean" else 1.0
    return gradient.expand(ctx.shape) * factor, None


_identity_loss = torch.library.custom_op(
    "tilescope::identity_loss", _copy_of_reduced, mutates_args=()
)
_identity_loss.register_fake(_copy_of_reduced)
_identity_loss.register_autograd(_loss_gradient, setup_context=_note_shape)


def identity_loss(x: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the mean or sum of a tensor, or itself, and mark it as a loss to be minimised.

    Parameters
    ----------
    x
        Of any shape.
    reduction
        ``mean``, ``sum`` or ``none``.

    Raises
    ------
    BadInput
        When the reduction is unknown.
    """
    if reduction not in ("mean", "sum", "none"):
        raise BadInput(f"Unknown reduction {reduction!r}: expected 'mean', 'sum' or 'none'")
    return _identity_loss(x, reduction)


def _zeros(
    inputs: list[torch.Tensor],
    name: str,
    domain: str,
    version: int,
    attributes: str,
    outputs: list[torch.Tensor],
) -> list[torch.Tensor]:
    return [torch.zeros_like(output) for output in outputs]


_custom_op = torch.library.custom_op("tilescope::custom_op", _zeros, mutates_args=())
_custom_op.register_fake(_zeros)


def custom_op(  # as PopTorch has it
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: Mapping[str, Any] | None = None,
) -> list[torch.Tensor]:
    """Return the results of an operator that `tilescope.engine.custom_operator` registered.

    PyTorch does not know what it computes: there, results are zeros.

    Parameters
    ----------
    inputs
        Operands.
    name, domain, version
        As it is registered.
    example_outputs
        One tensor per result, of its shape and type.
    attributes
        Numbers, strings and lists of them, by name.
    """
    text = json.dumps(dict(attributes or {}))
    results = _custom_op(list(inputs), name, domain, version, text, list(example_outputs))
    return list(results)


def _product(
    a: torch.Tensor, b: torch.Tensor, mode: str, factor: int, keeps_precision: bool
) -> torch.Tensor:
    return torch.matmul(a, b)


def _note_operands(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])


def _product_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    with torch.enable_grad():
        a, b = (x.detach().requires_grad_() for x in ctx.saved_tensors)
        found = torch.autograd.grad(torch.matmul(a, b), (a, b), gradient)
    return (*found, None, None, None)


_serialized_matmul = torch.library.custom_op(
    "tilescope::serialized_matmul", _product, mutates_args=()
)
_serialized_matmul.register_fake(_product)
_serialized_matmul.register_autograd(_product_gradient, setup_context=_note_operands)


def serialized_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    mode: str = "disabled",
    factor: int = 0,
    *,
    keeps_precision: bool = False,
) -> torch.Tensor:
    """Return a product of matrices that may be computed part by part.

    The engine's planner divides products by itself; mode and factor are accepted and have no
    effect.

    Parameters
    ----------
    a, b
        As those of ``torch.matmul``.
    mode
        Dimension of the parts.
    factor
        Number of parts.
    keeps_precision
        Whether partial results have the precision of the sum.
    """
    return _serialized_matmul(a, b, mode, factor, keeps_precision)
