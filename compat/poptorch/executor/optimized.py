"""The optimizer of an executor: its numbers and its states."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from poptorch import optim
from poptorch._logging import logger
from poptorch.executor.engine_optimizer import check_optimizer, engine_optimizer, kind_of
from poptorch.executor.optimizer_states import held_of, parameters_of, states_of
from poptorch.executor.weights import WeightsExecutor
from tilescope.engine.training import Descent

__all__ = ["OptimizedExecutor"]


class OptimizedExecutor(WeightsExecutor):
    """An executor that has an optimizer if it trains."""

    def setOptimizer(self, optimizer: Any) -> None:
        """Set what trains the module; its numbers reach the device at once.

        Raises
        ------
        Error
            When the program is compiled for one that computes otherwise.
        ValueError
            When it is compiled for other types of sums and states.
        """
        if self.isCompiled() and optimizer is not self._optimizer:
            if isinstance(self._optimizer, optim.Optimizer):
                self._read_optimizer_state()
                self._optimizer._device_reader = None
            if isinstance(optimizer, optim.Optimizer):
                optimizer.ipu_state_is_dirty = True
        check_optimizer(optimizer, self._checks)
        if not self.isCompiled():
            self._options.Training._choose_strategy(optimizer)
        self._optimizer = optimizer
        if isinstance(optimizer, optim.Optimizer):
            optimizer._device_reader = _weakly(self._read_optimizer_state)
        if self.isCompiled():
            before = self._engine_optimizer
            names = self._compiled().graph.interface.parameters
            self._note_optimizer()
            after = self._optimizer_of(names)
            if before is not None and _types(after) != _types(before):
                self._engine_optimizer = before
                raise ValueError(
                    "The types of the optimizer's sums and states cannot change: the model is"
                    " already compiled; call destroy() before setOptimizer()"
                )
            if after != before:
                self._compiled().set_optimizer(after)
            self._write_optimizer_state()

    def _note_optimizer(self) -> None:
        """Write into the log what trains the module."""
        if self._optimizer is not None:
            self._optimizer_log.note(self._optimizer, kind_of(self._optimizer, warns=False).name)

    def _read_optimizer_state(self) -> None:
        """Bring the optimizer's states to the host if those of the device are newer."""
        optimizer = self._optimizer
        if not isinstance(optimizer, optim.Optimizer) or not self.isCompiled():
            return
        if not optimizer.host_state_is_dirty:
            logger.debug("Using cached optimiser state dict")
            return
        logger.debug("Writing optimiser state tensors from IPU to host.")
        program = self._compiled()
        held = program.held()
        optimizer._state_dict = {
            "ipu_state": states_of(held, program.graph.interface.parameters, self._initial_scale),
            "ipu_param": parameters_of(program.compiled.held, held),
        }
        optimizer.host_state_is_dirty = optimizer.ipu_state_is_dirty = False

    @property
    def _initial_scale(self) -> float | None:
        """The loss scaling at first, where the device changes it."""
        scaling = self._engine_optimizer.scaling if self._engine_optimizer else None
        return None if scaling is None else scaling.initial

    def _write_optimizer_state(self) -> None:
        """Bring the optimizer's states to the device if those of the host are newer."""
        optimizer = self._optimizer
        if not isinstance(optimizer, optim.Optimizer) or not optimizer.ipu_state_is_dirty:
            return
        if optimizer.has_state() and self.isCompiled():
            self.copyWeightsToHostIfNeeded()
            logger.debug("Writing optimiser state tensors from host to IPU memory")
            stated = {**optimizer._state_dict["ipu_state"], **optimizer._state_dict["ipu_param"]}
            self._compiled().hold(held_of(stated, self._initial_scale))
        optimizer.ipu_state_is_dirty = False

    def _trained_paths(self) -> list[str]:
        """Return the module paths of the parameters that the optimizer changes."""
        if self._optimizer is None:
            return []
        chosen = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        named = self._user_model.named_parameters(remove_duplicate=False)
        return [path for path, p in named if id(p) in chosen and p.requires_grad]

    def _optimizer_of(self, names: Mapping[str, str]) -> Any:
        """Return the engine's optimizer; None for inference."""
        if self._optimizer is None:
            return None
        if not self.isCompiled():  # later on, weights that are looked at would come to the host
            named = self._user_model.named_parameters(remove_duplicate=False)
            self._paths = {id(parameter): path for path, parameter in named}
        by_id = {key: names[path] for key, path in self._paths.items() if path in names}
        self._engine_optimizer = engine_optimizer(self._optimizer, by_id, self._options)
        return self._engine_optimizer


def _types(optimizer: Descent) -> tuple[str, str]:
    """Return the types of sums and states."""
    return optimizer.sum_dtype, optimizer.state_dtype


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls a method as long as its object lives."""
    held = weakref.WeakMethod(method)

    def call() -> None:
        function = held()
        if function is not None:
            function()

    return call
