"""Operators that say something of a module to the engine; in PyTorch, they compute what it says.

They are PyTorch's operators ``tilescope::…``, which an export keeps; they are defined on first use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from tilescope.engine.errors import BadInput
from tilescope.engine.frontend.torch.places import PATH_KEY, SCOPE_KEY

if TYPE_CHECKING:
    import torch

__all__ = [
    "available_memory",
    "begin_block",
    "custom_op",
    "define_markers",
    "identity_loss",
    "named",
    "nop",
    "placed",
    "print_tensor",
    "recomputation_checkpoint",
    "scoped",
    "serialized_matmul",
]

_NONE = -1
#: Path of the blocks that `named` is in.
_PATH: ContextVar[str] = ContextVar("path", default="")
#: Names of the blocks that `scoped` is in.
_SCOPE: ContextVar[str] = ContextVar("scope", default="")

#: Schemas of the operators that return their operand.
_SAME = {
    "available_memory": "(Tensor x, float share) -> Tensor",
    "begin_block": "(Tensor x, int ipu, int stage, int phase) -> Tensor",
    "nop": "(Tensor x) -> Tensor",
    "print_tensor": "(Tensor x, str title, bool prints_gradient) -> Tensor",
    "recomputation_checkpoint": "(Tensor x) -> Tensor",
}
_LOSS = "(Tensor x, str reduction) -> Tensor"
_CUSTOM = (
    "(Tensor[] inputs, str name, str domain, int version, str attributes, Tensor[] outputs)"
    " -> Tensor[]"
)
_PRODUCT = "(Tensor a, Tensor b, str mode, int factor, bool keeps_precision) -> Tensor"


@cache
def define_markers() -> Mapping[str, Callable[..., Any]]:
    """Define the operators in PyTorch, once, and return them by name."""
    import torch

    def defined(name: str, schema: str, function: Any, note: Any, gradient: Any) -> Any:
        marker = torch.library.custom_op(
            f"tilescope::{name}", function, mutates_args=(), schema=schema
        )
        marker.register_fake(function)
        if gradient is not None:
            marker.register_autograd(gradient, setup_context=note)
        return marker

    def same(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x.clone()

    def note_count(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.n_others = len(inputs) - 1

    def same_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return (gradient, *(None,) * ctx.n_others)

    def reduced(x: torch.Tensor, reduction: str) -> torch.Tensor:
        return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x.clone()

    def note_shape(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape, ctx.reduction = inputs[0].shape, inputs[1]

    def loss_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        factor = 1 / ctx.shape.numel() if ctx.reduction == "mean" else 1.0
        return gradient.expand(ctx.shape) * factor, None

    def zeros(
        inputs: Any, name: Any, domain: Any, version: Any, attributes: Any, outputs: Any
    ) -> Any:
        return [torch.zeros_like(output) for output in outputs]

    def product(a: torch.Tensor, b: torch.Tensor, *_: Any) -> torch.Tensor:
        return torch.matmul(a, b)

    def note_operands(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])

    def product_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        with torch.enable_grad():
            a, b = (x.detach().requires_grad_() for x in ctx.saved_tensors)
            found = torch.autograd.grad(torch.matmul(a, b), (a, b), gradient)
        return (*found, None, None, None)

    return {
        **{
            name: defined(name, schema, same, note_count, same_gradient)
            for name, schema in _SAME.items()
        },
        "identity_loss": defined("identity_loss", _LOSS, reduced, note_shape, loss_gradient),
        "custom_op": defined("custom_op", _CUSTOM, zeros, None, None),
        "serialized_matmul": defined(
            "serialized_matmul", _PRODUCT, product, note_operands, product_gradient
        ),
    }


def _marked(name: str, *given: Any) -> Any:
    return define_markers()[name](*given)


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
    tensor: torch.Tensor = _marked("begin_block", x, *numbers)
    return tensor


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
    import torch

    with torch.fx.traceback.annotate({key: n for key, n in numbers.items() if n is not None}):
        yield


@contextmanager
def named(path: str) -> Iterator[None]:
    """Let what a block computes have a path below that of the blocks around it.

    Parameters
    ----------
    path
        Of a layer that is no module of PyTorch: what its operations are named after.
    """
    with _annotated(PATH_KEY, _PATH, path, "."):
        yield


@contextmanager
def scoped(name: str) -> Iterator[None]:
    """Let the names of what a block computes begin with a name, behind those of blocks around it.

    Parameters
    ----------
    name
        What stands before the paths of modules.
    """
    with _annotated(SCOPE_KEY, _SCOPE, name, "/"):
        yield


@contextmanager
def _annotated(key: str, variable: ContextVar[str], name: str, joint: str) -> Iterator[None]:
    """Annotate the nodes of a block with the names of the blocks around them, and one more."""
    import torch

    around = variable.get()
    token = variable.set(f"{around}{joint}{name}" if around else name)
    try:
        with torch.fx.traceback.annotate({key: variable.get()}):
            yield
    finally:
        variable.reset(token)


def nop(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor by an operation that computes nothing and that no pass removes."""
    tensor: torch.Tensor = _marked("nop", x)
    return tensor


def print_tensor(x: torch.Tensor, title: str = "", *, prints_gradient: bool = True) -> torch.Tensor:
    """Return a tensor, which the device prints whenever it is computed."""
    tensor: torch.Tensor = _marked("print_tensor", x, title, prints_gradient)
    return tensor


def available_memory(x: torch.Tensor, share: float) -> torch.Tensor:
    """Return a tensor; the operation that computes it may use a share of the tiles' memory.

    Raises
    ------
    BadInput
        When the share is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise BadInput(f"The share of available memory must be above 0 and at most 1, got {share}")
    tensor: torch.Tensor = _marked("available_memory", x, float(share))
    return tensor


def recomputation_checkpoint(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is kept for the backward pass where others are computed again."""
    tensor: torch.Tensor = _marked("recomputation_checkpoint", x)
    return tensor


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
    tensor: torch.Tensor = _marked("identity_loss", x, reduction)
    return tensor


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
    results = _marked("custom_op", list(inputs), name, domain, version, text, list(example_outputs))
    return list(results)


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
    tensor: torch.Tensor = _marked("serialized_matmul", a, b, mode, factor, keeps_precision)
    return tensor
