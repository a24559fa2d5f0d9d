"""Weights and states of the optimizer between host and device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from popart.builder.tensor import array_of, initializer_of
from popart.errors import popart_exception, popart_runtime_error
from popart.external_data import move_contents, with_contents, write_contents
from popart.loaded_model import folder_of, proto_of
from popart.session.compiled import CompiledSession
from popart.session.engine_errors import as_popart
from popart.session.stated import Array
from popart.step_io import PyWeightsIO
from tilescope.engine.session.engine import Engine

if TYPE_CHECKING:
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["WeightsSession"]


class WeightsSession(CompiledSession):
    """A session whose weights can be read and written."""

    def weightsFromHost(self) -> None:
        """Copy the weights of the host to the device."""
        compiled, engine = self._prepared("weightsFromHost()")
        held = {value.name for value in compiled.held}
        shared: dict[str, Array] = {}
        of_replicas: dict[str, list[Array]] = {}
        if not self._host.keys() >= self._states.keys():  # the first time
            with as_popart(), engine.recording(False):
                every = compiled.read_replicas(engine)
            starts = self._returned_of(every)
            self._host = {name: starts[name] for name in self._states} | self._host
            of_replicas = {name: [own[name] for own in every] for name in every[0]}
        for name, array in self._host.items():
            known, grouped = self._states.get(name, name), self._variables.find(name)
            if known not in held:
                continue
            of_replicas.pop(known, None)
            if grouped is None:
                shared[known] = array
            else:
                of_replicas[known] = grouped.of_replicas(array)
        if shared or of_replicas:
            with as_popart(), engine.recording(False):
                compiled.write_held(engine, shared, of_replicas)
        self._has_weights = True

    def weightsToHost(self) -> None:
        """Copy the weights of the device to the host."""
        compiled, engine = self._prepared(
            "weightsToHost(const std::map<TensorId, MutableVoidData> &)"
        )
        with as_popart(), engine.recording(False):
            for name, array in self._weights_returned(compiled, engine).items():
                if name in self._host:
                    self._host[name] = array.astype(self._host[name].dtype)
                elif name in self._states:
                    self._host[name] = array

    def _held(self, compiled: CompiledModel, engine: Engine, replica: int = 0) -> dict[str, Array]:
        """Return what a replica holds, under PopART's names."""
        return self._under_names(compiled.read_held(engine, replica))

    def _weights_returned(self, compiled: CompiledModel, engine: Engine) -> dict[str, Array]:
        """Return what the host gets of the replicas, under PopART's names."""
        if not self._variables.weights:
            return self._held(compiled, engine)
        return self._returned_of(compiled.read_replicas(engine))

    def _returned_of(self, of_replicas: Sequence[dict[str, Array]]) -> dict[str, Array]:
        every = [self._under_names(held) for held in of_replicas]
        returned = dict(every[0])
        for name in returned:
            grouped = self._variables.find(name)
            if grouped is not None:
                returned[name] = grouped.returned([held[name] for held in every])
        return returned

    def _under_names(self, held: dict[str, Array]) -> dict[str, Array]:
        states = {name: held[known] for name, known in self._states.items()}
        others = {name: held[name] for name in held.keys() - {*self._states.values()}}
        return others | states

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copy the weights of the host into arrays.

        Raises
        ------
        popart_exception
            When there is no weight of a name, or it has another size.
        """
        for name, target in weightsIo.weights.items():
            source = self._weight(name)
            if target.size != source.size:
                raise popart_exception(
                    f"The array for weight {name!r} has {target.size:,} elements; the weight has"
                    f" {source.size:,}"
                )
            target.reshape(-1)[:] = source.reshape(-1)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copy arrays into the weights of the host; `weightsFromHost` brings them to the device.

        Raises
        ------
        popart_exception
            When there is no weight of a name, or it has another size.
        """
        self._refuse_constants("writeWeights")
        for name, source in weightsIo.weights.items():
            weight = self._weight(name)
            if weight.size != source.size:
                raise popart_exception(
                    f"The array for weight {name!r} has {source.size:,} elements; the weight has"
                    f" {weight.size:,}"
                )
            self._host[name] = source.astype(weight.dtype).reshape(weight.shape)

    def _refuse_constants(self, function: str) -> None:
        if self._trained is None and self._options.constantWeights:
            raise popart_runtime_error(
                f"Cannot call {function} when constantWeights is set. Set `constantWeights` to"
                " False in the `SessionOption`s when initialising the session to enable this"
                " behaviour."
            )

    def _weight(self, name: str) -> Array:
        if name in self._host:
            return self._host[name]
        compiled, engine = self._prepared("readWeights()")
        with as_popart(), engine.recording(False):
            held = self._weights_returned(compiled, engine)
        if name not in held:
            raise popart_exception(
                f"There is no weight {name!r}; the model has {', '.join(self._host) or 'none'}"
            )
        return held[name]

    def modelToHost(self, fn: str) -> None:
        """Write the model with the weights of the device into an ONNX file.

        Raises
        ------
        popart_exception
            When it cannot be written.
        """
        self.weightsToHost()
        states = {name: self._host[name] for name in self._states}
        write_contents(self._proto, self._host, states)
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for tensor in proto.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                tensor.CopyFrom(initializer_of(self._host[tensor.name], tensor.name, tensor))
        known = {tensor.name for tensor in proto.graph.initializer}
        proto.graph.initializer.extend(
            initializer_of(self._host[name], name) for name in self._states if name not in known
        )
        try:
            Path(fn).write_bytes(proto.SerializeToString())
        except OSError as error:
            raise popart_exception(f"Cannot write {fn}: {error.strerror}") from None

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copy the contents of a file beside the model into a new one, for `modelToHost`.

        Raises
        ------
        popart_runtime_error
            When the file does not exist, the new one does, or the model has nothing in the file.
        """
        move_contents(self._proto, fromLocation, toLocation)

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Do nothing: there is one process."""

    def resetHostWeights(
        self,
        modelProtoOrFilename: bytes | str | Path,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Take the weights of another model; `weightsFromHost` brings them to the device.

        Raises
        ------
        popart_exception
            When weights are constants, or the model has weights that this one lacks.
        """
        self._refuse_constants("resetHostWeights")
        self._has_weights = False
        model = modelProtoOrFilename
        for tensor in with_contents(proto_of(model), folder_of(model)).graph.initializer:
            if tensor.name in self._host:
                array, grouped = array_of(tensor), self._variables.find(tensor.name)
                if grouped is not None:
                    grouped.of_replicas(array)  # refuses what no group has
                elif array.shape != self._host[tensor.name].shape:
                    raise popart_exception(
                        f"resetWeights, weight {tensor.name!r} has shape {list(array.shape)};"
                        f" expected {list(self._host[tensor.name].shape)}"
                    )
                self._host[tensor.name] = array.copy()
            elif not ignoreWeightsInModelWithoutCorrespondingHostWeight:
                raise popart_exception(f"resetWeights, no tensor '{tensor.name}' in tensors")
