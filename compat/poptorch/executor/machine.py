"""The machine that a model runs on, and the options of its engine."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from poptorch._logging import warn_once
from poptorch.errors import createPoptorchError, engine_errors
from poptorch.options import Options
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.options import EngineOptions, resolve

__all__ = ["N_IPUS", "engine_options_of", "machine_of"]

#: IPUs of the simulated system, as for PopART's device manager.
N_IPUS = 64

#: Tiles of a small IPU Model. Source: graphcore/popart, willow/include/popart/defaulttilecount.hpp
_FEW_TILES = 4

_MACHINES = {1: "gc2", 2: "gc200", 21: "bow"}

#: Options of plans that the engine has.
_OF_PLANS = ("partialsType", "availableMemoryProportion")


def machine_of(options: Options, n_ipus: int) -> Machine:
    """Return the machine for a model.

    Parameters
    ----------
    options
        Of the model.
    n_ipus
        IPUs of a replica.

    Raises
    ------
    Error
        When there are not as many, or, but on an IPU Model, their number is not a power of two.
    """
    asks_for_model = options.exists("use_model") and options.use_model
    is_small = _is_set("POPTORCH_SMALL_IPU_MODEL") and not _is_set("POPTORCH_IPU_MODEL")
    is_model = bool(asks_for_model or is_small or _is_set("POPTORCH_IPU_MODEL"))
    if n_ipus & (n_ipus - 1):
        if not options.auto_round_num_ipus and not is_model:
            raise createPoptorchError(
                f"The model uses {n_ipus} IPUs; the number of IPUs must be a power of two: call"
                " options.autoRoundNumIPUs() to reserve the next one"
            )
        n_ipus = 1 << n_ipus.bit_length()
    n_requested = n_ipus * options.replication_factor
    if n_requested > N_IPUS:
        raise createPoptorchError(
            f"Too many IPUs requested ({n_requested}). Experiments that need"
            f" more than {N_IPUS} IPUs are not supported: {options.replication_factor} replicas of"
            f" {n_ipus} are asked for"
        )
    version = options.ipu_version if options.exists("ipu_version") else 2
    if version not in _MACHINES:
        known = ", ".join(map(str, _MACHINES))
        raise createPoptorchError(f"Unknown ipu_version {version}: expected one of {known}")
    return _machine(_MACHINES[version], n_ipus, options.replication_factor, is_model, is_small)


@cache
def _machine(name: str, n_ipus: int, n_replicas: int, is_model: bool, is_small: bool) -> Machine:
    with engine_errors():
        return load_machine(
            name,
            n_ipus=n_ipus,
            n_replicas=n_replicas,
            tiles_per_ipu=_FEW_TILES if is_small else None,
            parameter_set="ipu_model" if is_model else "hardware",
            compiles_code=not is_small,
        )


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def engine_options_of(options: Options) -> EngineOptions:
    """Return the options of the engine: those of the environment, then of the model.

    Raises
    ------
    Error
        When one is unknown, or its value is not allowed.
    """
    popart = options._Popart.options
    stated: dict[str, Any] = {k: str(v) for k, v in popart.get("engineOptions", {}).items()}
    of_products = dict(popart.get("matmulOptions", {}))
    if partials := popart.get("partialsTypeMatMuls"):
        of_products.setdefault("partialsType", partials)
    of_convolutions = dict(popart.get("convolutionOptions", {}))
    if shares := options.available_memory_proportion:
        if len(set(shares.values())) > 1:
            warn_once("setAvailableMemoryProportion", "IPUs have one share, the smallest")
        share = min(shares.values())
        for plans in (of_products, of_convolutions):
            plans.setdefault("availableMemoryProportion", share)
    groups = {"matmulOptions": of_products, "convolutionOptions": of_convolutions}
    for group, plans in groups.items():
        for key, value in plans.items():
            if key in _OF_PLANS:
                stated.setdefault(f"{group}.{key}", str(value))
            else:
                warn_once(f"poptorch.Options: {group}[{key!r}]", "plans have no such choice")
    with engine_errors():
        return resolve(code=stated)
