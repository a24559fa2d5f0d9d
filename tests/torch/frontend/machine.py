"""Modules on the machine and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tilescope.engine.frontend.torch import TorchProgram, load_torch
from tilescope.engine.ir import Model
from tilescope.engine.machine import load_machine
from tilescope.engine.options import resolve
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.engine import Engine
from tilescope.engine.training import Loss, Sgd, for_training

__all__ = ["MACHINE", "check_gradients", "check_inference", "near", "ran"]

MACHINE = load_machine("gc200", tiles_per_ipu=8)
#: For models of many operations, whose code alone fills more tiles.
LARGER = load_machine("gc200", tiles_per_ipu=96)


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """Call it."""
        return self.function(*args)


def ran(
    model: Model, inputs: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outputs of a run, and what the device holds after it."""
    compiled = compile_model(model, MACHINE if len(model.operations) < 60 else LARGER)
    with Engine(compiled.executable, resolve(environ={})) as engine:
        engine.load()
        outputs = compiled.run(engine, inputs)
        return outputs, compiled.read_held(engine)


def near(actual: Any, expected: Any, tolerance: float, name: str = "") -> None:
    """Compare tensors relative to the largest number of the second, of 1 at least."""
    assert tuple(actual.shape) == tuple(expected.shape), f"{name}: {actual.shape}"
    a, b = np.asarray(actual), np.asarray(expected)
    assert a.dtype == b.dtype, f"{name}: {a.dtype} for {b.dtype}"
    if not b.size:
        return
    if not np.issubdtype(b.dtype, np.floating):
        np.testing.assert_array_equal(a, b, name)
        return
    finite = np.isfinite(b)
    np.testing.assert_array_equal(finite, np.isfinite(a), name)
    np.testing.assert_array_equal(a[~finite], b[~finite], name)
    if finite.any():
        most = np.abs(a[finite] - b[finite]).max()
        largest = max(1.0, np.abs(b[finite]).max())
        assert most <= tolerance * largest, f"{name}: off by {most:.3g} of {largest:.3g}"


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a structure."""
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def check_inference(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-5,
    **options: Any,
) -> TorchProgram:
    """Compare the results of a module with PyTorch's, and return its program."""
    kwargs = dict(kwargs or {})
    program = load_torch(module, args, kwargs, **options)
    outputs, _ = ran(program.model, program.take(args, kwargs))
    given = program.give(outputs)
    with torch.no_grad():
        expected = module(*args, **kwargs)
    assert type(given) is type(expected)
    pairs = zip(tensors_of(given), tensors_of(expected), strict=True)
    for index, (actual, reference) in enumerate(pairs):
        near(actual, reference, tolerance, f"output {index}")
    return program


def check_gradients(
    module: torch.nn.Module, args: Sequence[Any], *, tolerance: float = 1e-4
) -> TorchProgram:
    """Compare the gradients of a step with PyTorch's; the module returns its loss last."""
    program = load_torch(module, args, is_training=True)
    names = [name for name in program.parameters.values() if _is_trained(program, name)]
    loss = Loss(kind="identity", output=program.model.outputs[-1][0], reduction="sum")
    model = for_training(program.model, loss, Sgd(lr=0.0), anchors=list(dict.fromkeys(names)))
    outputs, held = ran(model, program.take(args))
    module.zero_grad()
    expected = tensors_of(module(*args))[-1]
    expected.backward()
    near(outputs["loss"], expected.detach().numpy(), tolerance, "loss")
    for path, parameter in module.named_parameters():
        if parameter.grad is None or not _is_trained(program, program.parameters[path]):
            continue
        actual = outputs[f"Gradient___{program.parameters[path]}"]
        gradient = parameter.grad.numpy()
        scale = max(np.abs(gradient).max(initial=0), 1e-2)
        near(actual / scale, gradient / scale, tolerance, path)
    for path, buffer in module.named_buffers():
        if program.buffers[path] in held:
            near(held[program.buffers[path]], buffer.numpy(), 1e-5, path)
    return program


def _is_trained(program: TorchProgram, name: str) -> bool:
    return any(p.name == name and p.is_trainable for p in program.model.parameters)
