"""A module as the engine has it, with what goes in and out as PyTorch has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadInput
from tilescope.engine.ir import Model

__all__ = ["MarkedLoss", "TorchProgram"]


@dataclass(frozen=True)
class MarkedLoss:
    """An output that the module marks as its loss, with `markers.identity_loss`.

    Parameters
    ----------
    output
        Name of the output.
    reduction
        ``mean``, ``sum`` or ``none``: what the mark made of it already.
    """

    output: str
    reduction: str


@dataclass(frozen=True)
class TorchProgram:
    """A model together with the structure of its arguments and results.

    Parameters
    ----------
    model
        The operator graph. Parameters and buffers have the names of their module paths, inputs
        those of arguments, outputs ``output`` with the path in what the module returns.
    parameters, buffers
        Name of the value by module path; tensors that are shared have one value. Buffers that
        change are states of the model.
    losses
        Outputs that are marked as losses.
    written
        Outputs with what the module writes into its arguments, by the names of inputs: they come
        after those that the module returns, if `load_torch` was told to return them.
    """

    model: Model
    parameters: Mapping[str, str]
    buffers: Mapping[str, str]
    losses: tuple[MarkedLoss, ...]
    written: Mapping[str, str]
    in_spec: Any = field(repr=False)
    out_spec: Any = field(repr=False)
    in_leaves: tuple[tuple[str, Any], ...] = field(repr=False)
    out_leaves: tuple[Any, ...] = field(repr=False)

    def take(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the inputs of the model from arguments of the module.

        Parameters
        ----------
        args, kwargs
            As the module is called.

        Returns
        -------
        dict
            Arrays by the names of inputs, of their shapes and types.

        Raises
        ------
        BadInput
            When the structure, a shape or a type is not the one the module was loaded with; names
            the argument.
        """
        from torch.utils import _pytree as pytree

        keywords = dict(kwargs or {})
        order = self._keyword_order
        if set(order) == set(keywords):
            keywords = {name: keywords[name] for name in order}
        leaves, spec = pytree.tree_flatten((tuple(args), keywords))
        if spec != self.in_spec:
            names = ", ".join(name for name, _ in self.in_leaves) or "none"
            raise BadInput(
                f"The arguments have another structure than those the module was loaded with: it"
                f" takes {names}"
            )
        inputs = {value.name: value for value in self.model.inputs}
        arrays: dict[str, NDArray[Any]] = {}
        for (name, expected), given in zip(self.in_leaves, leaves, strict=True):
            if name not in inputs:
                if not _is_same(expected, given):
                    raise BadInput(
                        f"Argument {name!r} is {given!r}, and the module was loaded with"
                        f" {expected!r}: load it anew for another value"
                    )
                continue
            arrays[name] = _checked(name, inputs[name], given)
        return arrays

    def give(self, values: Mapping[str, NDArray[Any]]) -> Any:
        """Return what the module returns, as tensors in its own structure.

        Parameters
        ----------
        values
            Arrays by the names of outputs.

        Raises
        ------
        BadInput
            When an output is missing.
        """
        import torch
        from torch.utils import _pytree as pytree

        leaves = []
        for leaf in self.out_leaves:
            if not isinstance(leaf, OutputName):
                leaves.append(leaf)
                continue
            if leaf not in values:
                raise BadInput(f"Output {leaf!r} is missing; given are {', '.join(values)}")
            # A copy: results that the compiler knows are its own arrays.
            leaves.append(torch.from_numpy(np.array(values[leaf], order="C")))
        return pytree.tree_unflatten(leaves, self.out_spec)

    @property
    def _keyword_order(self) -> list[str]:
        spec = self.in_spec.children()[1] if hasattr(self.in_spec, "children") else None
        return [] if spec is None else list(spec.context or [])


class OutputName(str):
    """Name of an output, among constants that a module returns."""

    __slots__ = ()


def _is_same(expected: Any, given: Any) -> bool:
    return type(expected) is type(given) and bool(expected == given)


def _checked(name: str, value: Any, given: Any) -> NDArray[Any]:
    """Return an argument as an array.

    Raises
    ------
    BadInput
        When it is of another shape or type.
    """
    try:
        array = given.detach().cpu().numpy() if hasattr(given, "detach") else np.asarray(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise BadInput(f"Argument {name!r} cannot be read as an array: {error}") from None
    if array.shape != value.shape or array.dtype.name != value.dtype:
        raise BadInput(
            f"Argument {name!r} is {array.dtype.name} of shape {array.shape}: expected"
            f" {value.dtype} of shape {value.shape}"
        )
    return array
