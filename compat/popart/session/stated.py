"""What a session is asked for: a model, options, anchors, and what is known of tensors."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from popart.batch_parts import serialised
from popart.builder.attribute_effects import warn_of_attributes
from popart.builder.tensor import array_of
from popart.data_flow import DataFlow
from popart.device import DeviceInfo
from popart.enums import AnchorReturnTypeId
from popart.errors import popart_exception
from popart.external_data import with_contents
from popart.loaded_model import LoadedModel, folder_of, proto_of
from popart.locations import located
from popart.names import reservedLossScalingPrefix, reservedUpdatedVarPrefix
from popart.options import SessionOptions
from popart.options.effects import warn_without_effect
from popart.patterns import Patterns
from popart.pipelines import check_pipelining, in_pipeline, with_anchors
from popart.random_state import RandomState
from popart.refusals import check_model, check_products, refuse_options, refuse_several_ipus
from popart.replication import (
    broadcast_inputs,
    of_replica,
    replicas_of,
    with_groupings,
)
from popart.required_patterns import check_required_patterns
from popart.session.engine_errors import as_popart
from popart.tensor_info import TensorInfo
from popart.training import FINAL_LOSS_SCALE, Trained, refuse_training_options
from popart.type_names import type_name
from popart.variables import GroupedVariables
from popart.virtual_graphs import on_virtual_graphs
from tilescope.engine.ir import Model
from tilescope.engine.session.engine import Engine
from tilescope.engine.training.modes import drawing

if TYPE_CHECKING:
    from popart.tensor_info import InputShapeInfo
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["GRADIENT", "Array", "StatedSession"]

Array = NDArray[Any]
GRADIENT, _RESTORED = "Gradient___", "Restored___"


class StatedSession:
    """A session before it is compiled: its model, options and anchors.

    Attributes
    ----------
    _host
        Weights on the host, by name.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        trained: Trained | None,
    ) -> None:
        self._options = SessionOptions() if userOptions is None else copy.deepcopy(userOptions)
        self._flow, self.name = dataFlow, name
        self._patterns = Patterns() if patterns is None else patterns
        self._proto = proto_of(fnModel)
        complete = with_contents(self._proto, folder_of(fnModel))
        complete = with_groupings(complete, self._options)
        self._variables = GroupedVariables.of(complete, self._options)
        contents = {t.name: array_of(t) for t in complete.graph.initializer}
        complete = self._variables.on_replica(complete)
        self._trained = trained
        if trained is not None:
            trained.check(self._options)
        else:
            refuse_training_options(self._options)
        refuse_options(self._options)
        self._whole_device = deviceInfo
        self._device = of_replica(deviceInfo, self._options)
        check_pipelining(self._options, self._device)
        refuse_several_ipus(self._options)
        self._check_patterns()
        warn_without_effect(self._options)
        warn_of_attributes(self._proto)
        shapes = _shapes_of(inputShapeInfo)
        is_trained = trained is not None
        checked = complete if self._variables.weights else self._proto
        check_model(checked, dataFlow, self._options, shapes, is_trained=is_trained)
        are_constants = trained is None and self._options.constantWeights
        self._loaded = LoadedModel.of(
            complete,
            self._outputs(),
            shapes=shapes,
            are_weights_kept=not are_constants or bool(self._variables.weights),
            gradients=self._gradients(),
            shared_by=self._variables.groups,
        )
        self._broadcast = broadcast_inputs(self._proto)
        self._host = {name: np.array(array) for name, array in contents.items()}
        check_products(self._proto, self._loaded.tensors)
        self._check_anchors()
        with as_popart(self._proto):
            placed = on_virtual_graphs(self._loaded.model, self._options, self._device)
            placed = in_pipeline(placed, self._options, dataFlow, is_trained=is_trained)
            if is_trained:
                placed = with_anchors(placed, self._loaded.tensors, self._options, dataFlow)
            placed = serialised(placed, self._options, is_trained=is_trained)
            placed = located(placed, self._proto, self._options)
            self._loaded = dataclasses.replace(self._loaded, model=placed)
            self._model: Model = (
                drawing(placed, 0, self.replicationFactor)
                if trained is None
                else trained.model_of(self._loaded, self._proto, self._gradients(), self._options)
            )
        self._states: dict[str, str] = {}
        self._compiled: CompiledModel | None = None
        self._engine: Engine | None = None
        self._random = RandomState(self._whole_device)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._file: Path | None = None  # of the program, if it was not compiled here
        self._is_loaded = self._has_run = self._has_weights = False
        self._cycles: NDArray[np.int64] = np.zeros(0, np.int64)

    def _outputs(self) -> list[str]:
        """Return the tensors of the forward pass that are anchors, the loss first."""
        known = {t.name for t in self._proto.graph.initializer}
        names = [
            name for name in self._flow.anchors() if name not in known and not _is_of_training(name)
        ]
        loss = [] if self._trained is None else [self._trained.loss]
        return list(dict.fromkeys([*loss, *names]))

    def _gradients(self) -> list[str]:
        """Return the tensors whose gradients are anchors."""
        names = self._flow.anchors()
        return [n.removeprefix(GRADIENT) for n in names if n.startswith(GRADIENT)]

    def _check_patterns(self) -> None:
        loss = "" if self._trained is None else self._trained.loss
        check_required_patterns(self._proto, self._patterns, loss, self._gradients())

    def _check_anchors(self) -> None:
        known = self._loaded.tensors
        reached = set() if self._trained is None else self._loaded.flow.reached(self._trained.loss)
        for name in self._flow.anchors():
            of = name.removeprefix(GRADIENT)
            if name.startswith(_RESTORED) and name.removeprefix(_RESTORED) not in known:
                raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")
            if name.startswith(GRADIENT) and self._trained is not None:
                if of in reached:
                    continue
                reason = " It has no gradient: no floating-point values lead from it to the loss."
                raise popart_exception(
                    f"Anchor tensor `{name}' not in Ir Tensors.{reason * (of in known)}"
                )
            if name in known or name in self._host:
                continue
            if name in self._scalars() or (self._trained is not None and "___" in name):
                continue
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")

    @property
    def dataFlow(self) -> DataFlow:
        """The batches of a step, and the anchors."""
        return self._flow

    @property
    def replicationFactor(self) -> int:
        """Replicas, which run on data of their own."""
        return replicas_of(self._options)

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches of a step of the optimiser."""
        options = self._options
        return int(options.accumulationFactor) if options.enableGradientAccumulation else 1

    def getInfo(self, name: str) -> TensorInfo:
        """Return type and shape of a tensor.

        Raises
        ------
        popart_exception
            When there is none of the name.
        """
        of = name.removeprefix(GRADIENT).removeprefix(_RESTORED)
        of = of.removeprefix(reservedUpdatedVarPrefix())
        scalars = self._scalars()
        if name in scalars:
            return TensorInfo(type_name(scalars[name].dtype), [])
        for known in (self._loaded.tensors, self._held_values()):
            if of in known:
                value = known[of]
                return TensorInfo(type_name(value.dtype), list(value.shape))
        raise popart_exception(f"TensorInfo for `{name}' is not available: no tensor has that name")

    def _scalars(self) -> dict[str, Array]:
        """Return the numbers of the optimizer that may be anchors, by name."""
        if self._trained is None:
            return {}
        weights = [(p.name, type_name(p.dtype)) for p in self._loaded.model.parameters]
        return self._trained.scalars(weights, self._options)

    def _held_values(self) -> dict[str, Any]:
        return {} if self._compiled is None else {v.name: v for v in self._compiled.held}

    def getAllTensorIds(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._loaded.tensors)

    getTensorIds = getAllTensorIds

    def initAnchorArrays(self) -> dict[str, Array]:
        """Return an array for every anchor, of the shape that a step returns."""
        arrays = {}
        for name in self._flow.anchors():
            info = self.getInfo(name)
            shape = [n for n in self._returned(name) if n != 1] + list(info.shape())
            arrays[name] = np.empty(shape, info.data_type_lcase())
        return arrays

    def _returned(self, name: str) -> list[int]:
        """Return how many values of an anchor a step returns, by dimension."""
        kind, batches = self._flow.art(name), self._flow.batchesPerStep()
        if kind.id() in (AnchorReturnTypeId.Final, AnchorReturnTypeId.Sum):
            return [self.replicationFactor]
        period = kind.rp() if kind.id() is AnchorReturnTypeId.EveryN else 1
        return [batches // period, self.accumulationFactor, self.replicationFactor]


def _shapes_of(info: InputShapeInfo | None) -> dict[str, tuple[int, ...]]:
    if info is None:
        return {}
    return {name: tuple(info.get(name).shape()) for name in info.getAllTensorIds()}


def _is_of_training(name: str) -> bool:
    """Return whether a name is that of a gradient, or of what an optimiser has."""
    return "___" in name or name.startswith((reservedLossScalingPrefix(), FINAL_LOSS_SCALE))
