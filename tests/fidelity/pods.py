"""C22, F25 and F26: training steps on Pods, of exact cycles without values."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fidelity.conformer import PUBLISHED, conformer_step
from tests.fidelity.networks import HALF_PARTIALS
from tests.fidelity.pretraining import BASE_128, pretraining_step
from tests.fidelity.training_networks import replicated_resnet50_step

from tilescope.engine import compile_model, load_machine
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.options.available_memory import AvailableMemory

__all__ = ["bert_rate", "conformer_ratios", "resnet_rate", "step_rate"]

#: Samples of a step of Conformer; replicas of four IPUs by Pod. Source: graphcore/examples,
#: speech/conformer/pytorch/README.md and scripts.
_SAMPLES = 16_128
_REPLICAS = {"POD4": 1, "POD16": 4, "POD64": 16}
_GENERATIONS = {"Mk2": "gc200", "Bow": "bow"}


def step_rate(model: Model, machine: Machine, share: float, n_samples: int) -> float:
    """Return samples per second of a training step at the machine's clock.

    Parameters
    ----------
    model
        The step.
    machine
        Its machine.
    share
        Of tile memory, available to a product or convolution; partial sums are in half.
    n_samples
        Samples of a step, of all replicas.
    """
    executable = compile_model(
        model,
        machine,
        is_instrumented=False,
        partials=HALF_PARTIALS,
        available_memory=AvailableMemory(share, share),
        excess=None,
    ).executable
    n_cycles = max(line.n_cycles for line in timeline_of(executable.roots[0], machine))
    return n_samples * machine.clock_hz / n_cycles


def bert_rate() -> Mapping[str, float]:
    """Return sequences per second of BERT base, phase 1, on four replicas of four IPUs."""
    of = BASE_128
    machine = load_machine("bow", n_ipus=len(of.layers), n_replicas=of.n_replicas)
    n_samples = of.batch * of.n_rounds * of.n_replicas
    return {"rate": step_rate(pretraining_step(of), machine, 0.25, n_samples)}


def resnet_rate() -> Mapping[str, float]:
    """Return images per second of ResNet-50 on each of 16 replicas."""
    batch, n_rounds, n_replicas = 18, 57, 16
    model = replicated_resnet50_step(batch, n_rounds, n_replicas)
    machine = load_machine("bow", n_replicas=n_replicas)
    return {"each IPU": step_rate(model, machine, 0.16, batch * n_rounds)}


def _conformer_rate(machine: str, pod: str) -> float:
    """Return samples per second of Conformer on a Pod, with its share of the global batch."""
    n_replicas = _REPLICAS[pod]
    model = conformer_step(PUBLISHED, _SAMPLES // (PUBLISHED.batch * n_replicas), n_replicas)
    of_pod = load_machine(machine, n_ipus=len(PUBLISHED.encoders), n_replicas=n_replicas)
    return step_rate(model, of_pod, 0.3, _SAMPLES)


def conformer_ratios() -> Mapping[str, float]:
    """Return the efficiency of Conformer on more replicas, of that on one, and Bow over Mk2."""
    rates = {
        generation: {pod: _conformer_rate(machine, pod) for pod in _REPLICAS}
        for generation, machine in _GENERATIONS.items()
    }
    ratios = {
        f"{generation}, efficiency on {pod}": rate[pod] / (rate["POD4"] * _REPLICAS[pod])
        for generation, rate in rates.items()
        for pod in _REPLICAS
        if pod != "POD4"
    }
    mk2, bow = rates.values()
    return ratios | {f"Bow over Mk2 on {pod}": bow[pod] / mk2[pod] for pod in _REPLICAS}
