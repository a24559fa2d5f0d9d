"""The options of a model: how often it runs, on what, and what is returned."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Self, TypeVar

import torch

from poptorch import enums
from poptorch._logging import logger
from poptorch.enums import CommGroupType, ConnectionType, OutputMode, SyncPattern
from poptorch.options.configuration_file import read_options
from poptorch.options.dictionary import OptionsDict
from poptorch.options.distributed import DistributedOptions
from poptorch.options.jit import JitOptions
from poptorch.options.popart_options import PopartOptions
from poptorch.options.precision import PrecisionOptions
from poptorch.options.progress_bar import ProgressBar
from poptorch.options.tensor_locations import TensorLocationOptions
from poptorch.options.training import TrainingOptions
from poptorch.strategies import ExecutionStrategy, PipelinedExecution

__all__ = ["Options"]

_T = TypeVar("_T")

#: Parts of paths of source files that are not a user's.
_SOURCE_EXCLUDES = ("install/poptorch", "site-packages/torch", "site-packages/poptorch")

#: Lines of a message before it is cut, where all are asked for.
_ALL_LINES = (1 << 64) - 1

#: What data made on the device are. Source: popart.SyntheticDataMode.RandomNormal
_SYNTHETIC = 2


class Options(OptionsDict):
    """The options of a model; methods return the options, so that calls can be chained."""

    def __init__(self) -> None:
        self._jit = JitOptions()
        self._popart = PopartOptions()
        self._graphProcessing = PrecisionOptions(self._popart)
        self._training = TrainingOptions(self._popart)
        self._distributed = DistributedOptions()
        self._tensor_locations = TensorLocationOptions()
        self._execution_strategy: ExecutionStrategy = PipelinedExecution()
        self._source_location_excludes = [*_SOURCE_EXCLUDES]
        self._progress_bar = ProgressBar()
        self._relax_optimizer_checks = False
        self._show_compilation_progress_bar = True
        self._module_namescope_enabled = True
        super().__init__(
            replication_factor=1,
            input_group_size=1,
            input_cgt=CommGroupType.Consecutive,
            broadcast_buffers=True,
            device_iterations=1,
            log_dir=".",
            max_repeat_logs=4,
            auto_round_num_ipus=False,
            anchored_tensors={},
            output_mode=OutputMode.Default.value,
            output_return_period=1,
            connection_type=ConnectionType.Always.value,
            sync_pattern=SyncPattern.Full.value,
            available_memory_proportion={},
        )
        if path := os.environ.get("POPTORCH_CACHE_DIR", ""):
            logger.info("POPTORCH_CACHE_DIR is set: executables are cached in %s", path)
            self.enableExecutableCaching(path)
        self.from_json(os.environ.get("POPTORCH_DEFAULT_OPTIONS", "{}"))

    def from_json(self, string: str) -> Self:
        """Call methods by their names in a JSON object.

        Parameters
        ----------
        string
            Arguments by the name of a method, with a dot after a group; a list has several. An
            enumeration's member is a string, such as ``OutputMode.All``.

        Raises
        ------
        AttributeError
            When the method is unknown.
        """
        for name, value in json.loads(string).items():
            method: Any = self
            for part in name.split("."):
                method = getattr(method, part)
            arguments = value if isinstance(value, list) else [_member_of(value)]
            method(*arguments)
        return self

    def loadFromFile(self, filepath: str) -> Self:
        """Make the calls of a file; see `configuration_file`.

        Raises
        ------
        ConfigFileError
            When a line is not a call.
        """
        import poptorch

        read_options(self, filepath, {"poptorch": poptorch, "torch": torch})
        return self

    @property
    def TensorLocations(self) -> TensorLocationOptions:
        """Where tensors are."""
        return self._tensor_locations

    @property
    def Distributed(self) -> DistributedOptions:
        """Which of several processes this is."""
        return self._distributed

    @property
    def Jit(self) -> JitOptions:
        """Options of tracing."""
        return self._jit

    @property
    def Precision(self) -> PrecisionOptions:
        """Options of arithmetic."""
        return self._graphProcessing

    @property
    def Training(self) -> TrainingOptions:
        """Options of training."""
        return self._training

    @property
    def _Popart(self) -> PopartOptions:
        """Options of PopART by name."""
        return self._popart

    def sourceLocationExcludes(self, excludes: list[str]) -> Self:
        """Set parts of paths of source files that no operation comes from."""
        self._source_location_excludes = excludes
        return self

    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Add parts of paths of source files that no operation comes from."""
        self._source_location_excludes = [*self._source_location_excludes, *excludes]
        return self

    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Set whether compilation shows a bar."""
        self._show_compilation_progress_bar = show
        return self

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Set whether unexpected attributes of optimizers are a matter of debugging only."""
        self._relax_optimizer_checks = relax
        return self

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self:
        """Set whether a number of IPUs that is not a power of two is rounded up to one."""
        self.set(auto_round_num_ipus=auto_round_num_ipus)
        return self

    def deviceIterations(self, device_iterations: int) -> Self:
        """Set how many batches, or steps of the optimizer, a call runs."""
        self.set(device_iterations=device_iterations)
        return self

    def setExecutionStrategy(self, strategy: ExecutionStrategy) -> Self:
        """Set which blocks are which stage, and how stages run.

        Raises
        ------
        AssertionError
            When it is not a strategy.
        """
        message = f"strategy is {strategy!r}: expected an execution strategy"
        assert isinstance(strategy, ExecutionStrategy), message
        self._execution_strategy = strategy
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion: dict[str, float]) -> Self:
        """Set the share of memory that products and convolutions may take while they run.

        Parameters
        ----------
        available_memory_proportion
            Shares by IPU: ``{"IPU0": 0.5}``.

        Raises
        ------
        AssertionError
            When a key does not begin with ``IPU``.
        """
        shares = {}
        for key, share in available_memory_proportion.items():
            assert key.startswith("IPU"), (
                'Available memory proportions are expected to be in a dictionary of {"IPU0": 0.5}'
                f" where the 0 in IPU is the index of the IPU. Invalid key: {key}"
            )
            shares[int(key[3:])] = share
        self.createOrSet(available_memory_proportion=shares)
        return self

    def replicationFactor(self, replication_factor: int) -> Self:
        """Set the number of replicas, which run on data of their own."""
        self.set(replication_factor=replication_factor)
        return self

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Self:
        """Set groups of replicas that take the same inputs.

        Raises
        ------
        ValueError
            When the size does not divide the replicas, or all are one group.
        """
        if input_group_type == CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, CommGroupType.Consecutive
        if input_group_type == CommGroupType.All:
            raise ValueError("input_group_type cannot be All")
        if self.replication_factor < input_group_size:
            raise ValueError("input_group_size cannot be larger than replication_factor")
        if self.replication_factor % input_group_size:
            raise ValueError("input_group_size must be a factor of replication_factor")
        self.set(input_group_size=input_group_size, input_cgt=input_group_type)
        return self

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """Set whether all replicas take the buffers of the first."""
        self.set(broadcast_buffers=broadcast_buffers)
        return self

    def logDir(self, log_dir: str) -> Self:
        """Set the directory of logs."""
        self.set(log_dir=log_dir)
        return self

    def maxRepeatLogs(self, max_lines: int | None) -> Self:
        """Set how often a message is repeated; None for always."""
        self.set(max_repeat_logs=_ALL_LINES if max_lines is None else max_lines)
        return self

    def modelName(self, name: str) -> Self:
        """Set the model's name in reports."""
        self.createOrSet(model_name=name)
        return self

    def enableExecutableCaching(self, path: str | None) -> Self:
        """Keep executables in a directory, and take them from there; None for neither."""
        if path is not None:
            self._Popart.set("cachePath", path)
        self._Popart.set("enableEngineCaching", path is not None)
        return self

    def useIpuModel(self, use_model: bool) -> Self:
        """Run on an IPU Model in place of hardware; both are simulated here."""
        self.createOrSet(use_model=use_model)
        return self

    def connectionType(self, connection_type: ConnectionType) -> Self:
        """Set when a model attaches to a device.

        Raises
        ------
        AssertionError
            When it is not a `ConnectionType`.
        """
        self.set(connection_type=_checked(connection_type, ConnectionType).value)
        return self

    def syncPattern(self, sync_pattern: SyncPattern) -> Self:
        """Set which IPUs synchronise with each other.

        Raises
        ------
        AssertionError
            When it is not a `SyncPattern`.
        """
        self.set(sync_pattern=_checked(sync_pattern, SyncPattern).value)
        return self

    def useIpuId(self, ipu_id: int) -> Self:
        """Set the device by its number.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        self.createOrSet(ipu_id=_checked(ipu_id, int))
        return self

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile only, for an IPU of a version."""
        self.connectionType(ConnectionType.Never)
        self.createOrSet(ipu_version=ipu_version)
        return self

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> None:
        """Keep the values of a tensor of a run.

        Parameters
        ----------
        short_name
            What `getAnchoredTensor` asks for.
        long_name
            Name of the tensor.
        output_mode
            Which values; None for those of the outputs.
        output_return_period
            Of ``EveryN``, the number of batches from one value to the next.
        """
        period = output_return_period if output_mode == OutputMode.EveryN else 1
        self.anchored_tensors[short_name] = [long_name, output_mode is None, output_mode, period]

    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Self:
        """Set which outputs of the batches of a run are returned.

        Raises
        ------
        AssertionError
            When it is not an `OutputMode`, or ``EveryN`` has no period.
        """
        _checked(output_mode, OutputMode)
        if output_mode == OutputMode.EveryN:
            assert (output_return_period or 0) > 0, (
                "EveryN anchor must have output_return_period set to valid positive integer"
            )
        elif output_return_period:
            logger.info("output_return_period has no effect with output_mode %s", output_mode)
        self.set(output_mode=output_mode.value, output_return_period=output_return_period or 1)
        return self

    def defaultOutputMode(self) -> bool:
        """Whether no output mode was chosen."""
        return bool(self.output_mode == OutputMode.Default)

    def randomSeed(self, random_seed: int) -> Self:
        """Set the seed of PyTorch and of the device.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        torch.manual_seed(_checked(random_seed, int))
        self.createOrSet(random_seed=random_seed)
        return self

    def enableStableNorm(self, enabled: bool) -> Self:
        """Set whether normalisations are computed in a stable way."""
        self._Popart.set("enableStableNorm", enabled)
        return self

    def enableSyntheticData(self, enabled: bool) -> Self:
        """Set whether data are made on the device, in place of those of the host."""
        self._Popart.set("syntheticDataMode", _SYNTHETIC if enabled else 0)
        return self

    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Set whether cycles are counted."""
        self._Popart.set("instrumentWithHardwareCycleCounter", log_cycle_count)
        return self

    def enableProfiling(self, profile_dir: str | None = None) -> Self:
        """Write a report of the model into a directory."""
        stated = os.environ.get("POPLAR_ENGINE_OPTIONS", "")
        names = ("debug.allowOutOfMemory", "autoReport.directory", "autoReport.all")
        if any(name in stated for name in names):
            logger.warning("POPLAR_ENGINE_OPTIONS takes precedence over enableProfiling()")
        options = dict(self._popart.options.get("engineOptions", {}))
        options |= dict.fromkeys((names[0], names[2]), "true") | {names[1]: profile_dir or "."}
        self._popart.setEngineOptions(options)
        return self

    def disableModuleNamescope(self) -> Self:
        """Leave the names of modules out of those of operations."""
        self._module_namescope_enabled = False
        return self

    def updatableNamedBuffers(self, buffers: list[str]) -> Self:
        """Set which buffers `copyNamedBuffersToDevice` copies."""
        self._Popart.set("updatableNamedBuffers", buffers)
        return self

    def toDict(self) -> dict[str, Any]:
        """Return all values by name.

        Raises
        ------
        AssertionError
            When no output mode was chosen.
        """
        assert not self.defaultOutputMode(), "An output mode must be picked before serialisation"
        values = {**self._execution_strategy.backendOptions(), **self._popart.options}
        values = super().update(values)
        for group in (self._training, self._distributed, self._tensor_locations):
            values = group.update(values)
        if self._show_compilation_progress_bar:
            values["compilation_progress_bar_fn"] = self._progress_bar
        return values

    def clone(self) -> Self:
        """Return a copy that can be changed."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        groups = ("Distributed", "Jit", "Precision", "TensorLocations", "Training", "_Popart")
        shown = [f"{key}={value!r}" for key, value in self._values.items()]
        shown += [f"{name}={getattr(self, name)}" for name in groups]
        return f"{type(self).__name__}({', '.join(shown)})"


def _member_of(value: Any) -> Any:
    """Return the member of an enumeration that a string names; other values as they are."""
    if not isinstance(value, str) or value.count(".") != 1:
        return value
    kind, member = value.split(".")
    return getattr(getattr(enums, kind, None), member, value)


def _checked(value: _T, kind: type) -> _T:
    """Return a value of a type.

    Raises
    ------
    AssertionError
        When it is of another type.
    """
    assert isinstance(value, kind), f"{value!r} is not a {kind.__name__}"
    return value
