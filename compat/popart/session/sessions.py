"""The sessions that programs make: for inference, and for training."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from popart.data_flow import DataFlow
from popart.device import DeviceInfo
from popart.loaded_model import proto_of
from popart.losses import Loss, with_losses
from popart.options import SessionOptions
from popart.patterns import Patterns
from popart.session.engine_errors import as_popart
from popart.session.reported import ReportedSession
from popart.training import Trained

if TYPE_CHECKING:
    from popart.optimizers import Optimizer
    from popart.tensor_info import InputShapeInfo

__all__ = ["InferenceSession", "TrainingSession"]


class InferenceSession(ReportedSession):
    """A session that runs a model.

    Parameters
    ----------
    fnModel
        Bytes of an ONNX model, or the path of a file.
    dataFlow
        Batches of a step, and anchors. The first releases of PopART call it ``dataFeed``.
    deviceInfo
        A device of `DeviceManager`.
    inputShapeInfo
        Shapes of inputs, where the model leaves them open.
    patterns, userOptions, name
        As PopART has them.

    Raises
    ------
    popart_exception
        When the model cannot be used, or an anchor does not exist.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
        *,
        dataFeed: DataFlow | None = None,
    ) -> None:
        flow = _given("InferenceSession", "dataFlow", dataFlow, dataFeed)
        device = _given("InferenceSession", "deviceInfo", deviceInfo)
        super().__init__(fnModel, flow, device, inputShapeInfo, patterns, userOptions, name, None)


class TrainingSession(ReportedSession):
    """A session that trains a model.

    Parameters
    ----------
    fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name
        As for `InferenceSession`.
    loss
        Name of the tensor that is minimised: a scalar. The first releases of PopART take records
        instead, as ``losses``: their sum is minimised.
    optimizer
        How weights change.

    Raises
    ------
    popart_exception
        When the model cannot be trained.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow | None = None,
        loss: str | None = None,
        optimizer: Optimizer | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
        *,
        dataFeed: DataFlow | None = None,
        losses: Sequence[Loss] | None = None,
    ) -> None:
        flow = _given("TrainingSession", "dataFlow", dataFlow, dataFeed)
        device = _given("TrainingSession", "deviceInfo", deviceInfo)
        rule = _given("TrainingSession", "optimizer", optimizer)
        model: bytes | str | Path = fnModel
        if losses is not None and loss is None:
            proto, loss = with_losses(proto_of(fnModel), losses)
            model = proto.SerializeToString()
        trained = Trained(_given("TrainingSession", "loss", loss), copy.deepcopy(rule))
        super().__init__(model, flow, device, inputShapeInfo, patterns, userOptions, name, trained)

    def updateOptimizerFromHost(self, optimizer: Optimizer) -> None:
        """Take other numbers of the optimiser, for the next steps.

        Raises
        ------
        popart_exception
            When constants differ, or it is another kind of optimiser.
        """
        assert self._trained is not None, "a training session has it"
        compiled, engine = self._prepared("optimizerFromHost()")
        with as_popart(), engine.recording(False):
            changed = self._trained.changed(optimizer, self._options, self._model)
            compiled.write_optimiser(engine, changed)

    def optimizerFromHost(self) -> None:
        """Write the numbers of the optimiser to the device."""
        assert self._trained is not None, "a training session has it"
        self.updateOptimizerFromHost(self._trained.optimizer)


_Argument = TypeVar("_Argument")


def _given(session: str, name: str, *values: _Argument | None) -> _Argument:
    """Return an argument that a session needs, under one of its names.

    Raises
    ------
    TypeError
        When it is not given, as Python does.
    """
    for value in values:
        if value is not None:
            return value
    raise TypeError(f"{session}() is missing the argument {name!r}")
