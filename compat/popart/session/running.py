"""Steps of a session: batches in, anchors out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from popart.anchor_values import AnchorValues
from popart.enums import DeviceConnectionType, SyntheticDataMode
from popart.errors import popart_exception, popart_runtime_error
from popart.names import reservedUpdatedVarPrefix
from popart.pipelines import is_one_run
from popart.session.engine_errors import as_popart
from popart.session.random_numbers import RandomSession
from popart.session.stated import Array
from popart.session.weights import WeightsSession
from popart.step_io import StepIO
from popart.training import FINAL_LOSS_SCALE
from popart.type_names import type_name
from tilescope.engine.session.engine import Engine

if TYPE_CHECKING:
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["RunningSession"]


class RunningSession(WeightsSession, RandomSession):
    """A session that runs."""

    def run(self, stepio: StepIO | str, debugName: StepIO | str = "", name: str = "") -> None:
        """Run a step: all its batches.

        Parameters
        ----------
        stepio
            Where batches come from and anchors go to.
        debugName
            Name of the run in the report.

        Raises
        ------
        popart_exception
            When data do not fit the model.
        """
        if isinstance(stepio, str):  # the form with a program's name in front
            raise popart_exception(f"[Devicex::run] Program {stepio} not found.")
        compiled, engine = self._runnable()
        label = str(debugName) or name
        n_rounds, n_batches = self.accumulationFactor, self._flow.batchesPerStep()
        has_data = self._options.syntheticDataMode is SyntheticDataMode.Off
        if has_data:
            inputs = {info.name for info in self._proto.graph.input}
            stepio.check(self._sizes(n_batches * n_rounds), self._expected(), inputs)
        gathered = AnchorValues(self._flow, n_rounds)
        self._load_random_state(compiled, engine)
        self._cycles = np.zeros(self._device.numIpus, np.int64)
        # Batches of one run of the program: a pipeline without accumulation takes all of a step.
        n_joined = n_batches if is_one_run(self._options) else 1
        for first in range(0, n_batches, n_joined):
            with as_popart():
                outputs = self._batches(
                    compiled, engine, stepio if has_data else None, label, n_joined * n_rounds
                )
            if not has_data:
                continue
            for anchor in self._flow.anchors():
                if anchor not in outputs:
                    continue
                of_batches = np.split(outputs[anchor], n_joined)
                for batch, values in enumerate(of_batches, first):
                    for value in gathered.taken(anchor, batch, values):
                        self._write(stepio, anchor, value)
        for anchor, value in gathered.sums():
            self._write(stepio, anchor, value)
        self._has_run = True
        if self._options.enableStochasticRounding:
            self._random.advance()

    def _runnable(self) -> tuple[CompiledModel, Engine]:
        """Return the program and its engine, loaded.

        Raises
        ------
        popart_runtime_error
            When there is none, or weights were not copied to it.
        """
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution")
        if self._trained is not None and self._host and not self._has_weights:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the model has initializers and the session"
                " has been created in training mode"
            )
        prepared = self._prepared("run(const IStepIO &)")
        if not self._is_loaded:
            self.loadEngineAndConnectStreams()
        return prepared

    def _batches(
        self,
        compiled: CompiledModel,
        engine: Engine,
        stepio: StepIO | None,
        label: str,
        n_rounds: int,
    ) -> dict[str, Array]:
        """Run batches of some micro-batches, and return the anchors of all of them by name."""
        rounds: list[dict[str, Array]] = [{} for _ in range(n_rounds)]
        if stepio is not None:
            for value in compiled.model.inputs:
                for inputs in rounds:
                    inputs[value.name] = self._of_replicas(value, stepio)
        before = self._before(compiled, engine) if stepio is not None else {}
        if compiled.model.n_rounds > 1:  # a run takes all micro-batches of a step
            joined = {name: np.stack([inputs[name] for inputs in rounds]) for name in rounds[0]}
            outputs = self._counted(compiled, engine, joined, label)
        else:
            runs = [self._counted(compiled, engine, inputs, label) for inputs in rounds]
            outputs = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
        held = [name for name in self._flow.anchors() if name not in outputs]
        if held and stepio is not None:
            replicas = range(self.replicationFactor)
            with engine.recording(False):
                known = [
                    {**self._host, **self._held(compiled, engine, replica), **before}
                    for replica in replicas
                ]
            for name in held:
                of = name.removeprefix(reservedUpdatedVarPrefix())
                if of in known[0]:
                    of_all = known[0][of] if len(known) == 1 else np.stack([k[of] for k in known])
                    outputs[name] = np.stack([of_all] * n_rounds)
        return outputs

    def _of_replicas(self, value: Any, stepio: StepIO) -> Array:
        """Return the next batch of an input; with several replicas, one of each, or one for all."""
        n_replicas = self.replicationFactor
        if n_replicas == 1:
            return self._typed(value, stepio)
        if value.name in self._broadcast:
            return np.stack([self._typed(value, stepio)] * n_replicas)
        return np.stack([self._typed(value, stepio) for _ in range(n_replicas)])

    def _write(self, stepio: StepIO, anchor: str, value: Array) -> None:
        """Write a value of an anchor, of one replica after the other."""
        for own in [value] if self.replicationFactor == 1 else value:
            stepio.write(anchor, np.ascontiguousarray(own))

    def _before(self, compiled: CompiledModel, engine: Engine) -> dict[str, Array]:
        """Return what the optimizer computes a batch with, of anchors."""
        names = [name for name in self._flow.anchors() if name not in self._loaded.tensors]
        scalars = self._scalars() if names else {}
        asked = {name: scalars[name] for name in names if name in scalars}
        if FINAL_LOSS_SCALE in asked:
            with engine.recording(False):
                asked[FINAL_LOSS_SCALE] = compiled.read_held(engine)["lossScaling"]
        return asked

    def _counted(
        self, compiled: CompiledModel, engine: Engine, inputs: dict[str, Array], label: str
    ) -> dict[str, Array]:
        """Run once, and count its cycles if they are asked for."""
        outputs = compiled.run(engine, inputs, label)
        if self._options.instrumentWithHardwareCycleCounter:
            self._cycles = self._cycles + engine.n_cycles()
        return outputs

    def _typed(self, value: Any, stepio: StepIO) -> Array:
        array = stepio.read(value.name, value.shape)
        expected = np.dtype(value.dtype)
        if array.dtype == expected:
            return array
        if array.dtype.kind in "iu" and expected.kind in "iu":
            return array.astype(expected)
        raise popart_exception(
            f"Type discrepancy for tensor {value.name}. User provided : {type_name(array.dtype)}"
            f" and expected : {type_name(expected)}. Consider a custom conversion of the data"
        )

    def _sizes(self, n_batches: int) -> dict[str, int]:
        """Return the elements that a step takes of every input."""
        compiled, _ = self._prepared("run(const IStepIO &)")
        n_each = n_batches * self.replicationFactor
        return {
            v.name: (n_batches if v.name in self._broadcast else n_each) * int(np.prod(v.shape))
            for v in compiled.model.inputs
        }

    def _expected(self) -> dict[str, int]:
        """Return the elements that a step returns of every anchor."""
        return {
            name: int(np.prod([*self._returned(name), *self.getInfo(name).shape()]))
            for name in self._flow.anchors()
        }
