"""Profile of a module of PyTorch in one call."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine
    from tilescope.reports import Report

__all__ = ["profile"]


def profile(
    module: Any,
    *example_inputs: Any,
    machine: Machine | str = "gc200",
    train: Any = None,
    directory: str | PathLike[str] = "report",
    kwargs: Mapping[str, Any] | None = None,
) -> Report:
    """Run a module of PyTorch on a simulated machine and return the report of the run.

    Parameters
    ----------
    module
        A ``torch.nn.Module``, in the form for training or inference that it is in.
    *example_inputs
        What it is called with; with a loss in `train`, the loss's target comes last.
    machine
        The machine, or the name of a preset.
    train
        None for inference. A loss, such as ``torch.nn.CrossEntropyLoss()``, or an optimiser of
        ``torch.optim``, or a pair of both, for a step of training. Without a loss, the last of
        what the module returns is the loss; without an optimiser, it is SGD at a rate of 0.01.
    directory
        Of the report, which is replaced.
    kwargs
        What else the module is called with.

    Returns
    -------
    Report
        As `tilescope.analyser.open` opens it.

    Raises
    ------
    EngineError
        When PyTorch is missing, the module cannot be exported or does not fit, or an option is
        unknown.
    """
    from tilescope import analyser
    from tilescope.engine.frontend.torch import load_torch
    from tilescope.engine.machine import load_machine
    from tilescope.engine.options import resolve
    from tilescope.engine.session.compilation import compile_model
    from tilescope.engine.session.engine import Engine

    simulated = load_machine(machine) if isinstance(machine, str) else machine
    stated = {"autoReport.all": True, "autoReport.directory": str(directory)}
    options = resolve(code=stated)
    name = type(module).__name__
    loss, optimiser = _parts(train)
    whole = module if loss is None else _with_loss(module, loss)
    program = load_torch(whole, example_inputs, kwargs, is_training=train is not None, name=name)
    inputs = program.take(example_inputs, kwargs)
    model = program.model if train is None else _trained(program, optimiser)
    compiled = compile_model(model, simulated)
    facts = {"model_name": name}
    if model.training is not None:
        facts |= model.training.facts
    with Engine(compiled.executable, options, provenance=facts) as engine:
        engine.load()
        compiled.run(engine, inputs, "step 1" if train is not None else "")
    return analyser.open(Path(directory))


def _parts(train: Any) -> tuple[Any, Any]:
    """Return the loss and the optimiser of what `profile` is given, None for what is missing."""
    loss = optimiser = None
    for part in train if isinstance(train, tuple | list) else (train,):
        if hasattr(part, "param_groups"):
            optimiser = part
        elif callable(part):
            loss = part
    return loss, optimiser


def _with_loss(module: Any, loss: Any) -> Any:
    """Return a module that is called with a target, and returns its result and its loss."""
    import torch

    class WithLoss(torch.nn.Module):  # type: ignore[misc]  # PyTorch is untyped here
        """A module with its loss."""

        def __init__(self) -> None:
            super().__init__()
            self.module, self.loss = module, loss

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Return the result and the loss."""
            *inputs, target = args
            result = self.module(*inputs, **kwargs)
            return result, self.loss(result, target)

    whole = WithLoss()
    whole.training = module.training
    return whole


def _trained(program: Any, optimiser: Any) -> Any:
    """Return the model of a step of training.

    Raises
    ------
    BadModel
        When the module returns no loss.
    """
    from math import prod

    from tilescope.engine.errors import BadModel
    from tilescope.engine.training import Loss, Sgd, for_training
    from tilescope.torch_optimiser import optimiser_of

    outputs = dict(program.model.outputs)
    marked = [loss.output for loss in program.losses]
    last = (marked or list(outputs))[-1]
    if prod(outputs[last].shape) != 1:
        raise BadModel(
            f"The module returns {last!r} of shape {outputs[last].shape} last, which is not a loss:"
            " return the loss last, or give profile one, such as train=torch.nn.CrossEntropyLoss()"
        )
    descent = Sgd(lr=0.01) if optimiser is None else optimiser_of(optimiser)
    loss = Loss(kind="identity", output=last, reduction="sum")
    return for_training(program.model, loss, descent)
