"""How many IPUs a program asks for, and of which kind: Graphcore's IPUConfig."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from tilescope.engine.errors import BadOption
from tilescope.engine.machine import Machine, load_machine

__all__ = ["Configured", "IPUConfig", "configured"]

#: Names of groups of settings, and of settings of the configuration itself, that cannot change a
#: result here: of the device's connection, of compilation, and of how numbers are rounded.
_GROUPS = (
    "convolutions",
    "device_connection",
    "experimental",
    "floating_point_behaviour",
    "io_tiles",
    "matmuls",
    "norms",
    "optimizations",
    "pooling",
    "scheduling",
    "slices",
    "verified_transfers",
)
_SETTINGS = (
    "allow_recompute",
    "auto_select_ipus",
    "compilation_poplar_options",
    "configure_ipu_system",
    "gcl_poplar_options",
    "ipu_model",
    "machine",
    "select_ipus",
    "selection_order",
    "serialization_output_folder",
)
#: IPUs by the name that ``ipu_model.version`` has for them.
_VERSIONS = {"ipu1": "gc2", "ipu2": "gc200", "ipu21": "bow"}


class _Settings:
    """A group of settings without effect: each says so once when it is set."""

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_path", path)

    def __getattr__(self, name: str) -> _Settings:
        if name.startswith("_"):
            raise AttributeError(name)
        group = _Settings(f"{self._path}.{name}")
        object.__setattr__(self, name, group)
        return group

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        warnings.warn(f"IPUConfig.{self._path}.{name} has no effect", stacklevel=2)


class _IpuModel:
    """The simulated IPU.

    Attributes
    ----------
    compile_ipu_code
        Whether code for the tiles takes memory.
    tiles_per_ipu
        0 for all that the machine has.
    version
        ``ipu1``, ``ipu2`` or ``ipu21``; empty for the machine that `IPUConfig.machine` names.
    """

    def __init__(self) -> None:
        self.compile_ipu_code = True
        self.tiles_per_ipu = 0
        self.version = ""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "version" and value not in ("", *_VERSIONS):
            raise BadOption(
                f"IPUConfig.ipu_model.version is {value!r}: choose {', '.join(_VERSIONS)}"
            )
        super().__setattr__(name, value)


@dataclass(frozen=True)
class Configured:
    """The IPUs that programs run on.

    Parameters
    ----------
    n_ipus
        All of them.
    name
        The machine: a preset, or the path of a file.
    tiles_per_ipu
        None for all that the machine has.
    compiles_code
        Whether code for the tiles takes memory.
    """

    n_ipus: int = 1
    name: str = "gc200"
    tiles_per_ipu: int | None = None
    compiles_code: bool = True

    def machine(self, n_ipus: int) -> Machine:
        """Return the machine of replicas that have a number of IPUs each.

        Raises
        ------
        BadOption
            When the replicas do not divide the IPUs.
        BadMachine
            When the machine does not exist.
        """
        if self.n_ipus % n_ipus:
            raise BadOption(
                f"A replica of the model takes {n_ipus} IPUs, which do not divide the"
                f" {self.n_ipus} that are configured: set IPUConfig.auto_select_ipus to a multiple"
            )
        return load_machine(
            self.name,
            n_ipus=n_ipus,
            n_replicas=self.n_ipus // n_ipus,
            tiles_per_ipu=self.tiles_per_ipu,
            compiles_code=self.compiles_code,
        )

    def one_replica(self) -> Machine:
        """Return a machine of one IPU, on which a model predicts."""
        return replace(self, n_ipus=1).machine(1)


class IPUConfig:
    """The IPUs that a program asks for.

    Attributes
    ----------
    auto_select_ipus
        Number of IPUs, or a list whose first one counts. Where they are more than a model takes,
        the others are replicas of it that train on data of their own.
    machine
        Name of the machine, or the path of a file with one.
    ipu_model
        Tiles, version and whether code takes memory, as Graphcore's IPU Model has them.
    """

    def __init__(self) -> None:
        self.auto_select_ipus: int | list[int] = 1
        self.machine = Configured.name
        self.ipu_model = _IpuModel()

    def __getattr__(self, name: str) -> _Settings:
        if name not in _GROUPS:
            raise AttributeError(_unknown(name))
        group = _Settings(name)
        object.__setattr__(self, name, group)
        return group

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in (*_GROUPS, *_SETTINGS):
            raise BadOption(_unknown(name))
        object.__setattr__(self, name, value)
        if name not in ("auto_select_ipus", "ipu_model", "machine"):
            warnings.warn(f"IPUConfig.{name} has no effect", stacklevel=2)

    def configure_ipu_system(self) -> None:
        """Let the models of this process run on these IPUs.

        Raises
        ------
        BadOption
            When there are no IPUs.
        """
        stated = self.auto_select_ipus
        n_ipus = stated[0] if isinstance(stated, list | tuple) else stated
        if isinstance(n_ipus, bool) or not isinstance(n_ipus, int) or n_ipus < 1:
            raise BadOption(f"IPUConfig.auto_select_ipus is {stated!r}: give a number from 1")
        model = self.ipu_model
        _current[0] = Configured(
            n_ipus,
            _VERSIONS.get(model.version, self.machine),
            model.tiles_per_ipu or None,
            model.compile_ipu_code,
        )


#: What the last configuration of the process has set.
_current = [Configured()]


def configured() -> Configured:
    """Return the IPUs that models run on."""
    return _current[0]


def _unknown(name: str) -> str:
    nearest = get_close_matches(name, (*_GROUPS, *_SETTINGS), 1)
    advice = f": did you mean {nearest[0]!r}?" if nearest else ""
    return f"IPUConfig has no attribute {name!r}{advice}"
