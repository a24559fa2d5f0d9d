"""``tilescope run``: compile a model, run it, write a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import print_json, print_line
from tilescope.model_split import explained, with_split
from tilescope.parameters import AsJson, examples
from tilescope.run_arguments import (
    BatchOption,
    BatchPartsOption,
    DimOption,
    EngineOption,
    HalfPartialsOption,
    HalfPolicyOption,
    InHalfOption,
    IoTilesOption,
    IpusOption,
    KeepFloatOption,
    MachineOption,
    OffloadOption,
    OperatorsOption,
    ParametersOption,
    PipelineOption,
    PrecisionOption,
    QuietOption,
    ReplicasComputedOption,
    ReplicasOption,
    SettingOption,
    ShapeOption,
    SplitOption,
    TilesOption,
    computed_of,
    dims_of,
    directory_of,
    load_operator_files,
    locations_of,
    machine_of,
    memory_of,
    options_of,
    partials_of,
    phases,
    policy_of,
    settings_of,
    shapes_of,
    source_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tilescope.engine.frontend.onnx.peer import OutputCheck
    from tilescope.engine.session.model_run import ModelRun

__all__ = ["register"]

EXIT_DIFFERENT = 1


def register(app: typer.Typer) -> None:
    """Add the command ``run``."""

    @app.command(
        epilog=examples(
            "run model.onnx",
            "run model.onnx --machine bow --tiles 64 --report out",
            "run model.onnx --shape x=1,3,224,224 --json",
            "run model.onnx --batch 4 --set sizes=2,12",
            "run model.onnx --dim sequence=128 --dim past=0",
            "run model.onnx --precision half --synthetic-data random_normal",
            "run model.onnx --ipus 2 --split '/decoder/*=1'",
            "run model.onnx --ipus 2 --pipeline 2 --iterations 8",
            "run model.onnx --ipus 4 --replicas 2 --pipeline 2",
            "run model.onnx --verify --no-report",
            "run module.py:make_model",
            "run model.pt2 --dim batch=4",
            "run model.onnx --option debug.instrument=false --quiet",
        )
    )
    def run(
        model: Annotated[
            Path,
            typer.Argument(
                help="ONNX file, .pt2 file, or FILE.py:FUNCTION that returns a PyTorch module.",
                show_default=False,
            ),
        ],
        machine: MachineOption = "gc200",
        parameters: ParametersOption = "hardware",
        ipus: IpusOption = 1,
        replicas: ReplicasOption = 1,
        replicas_computed: ReplicasComputedOption = None,
        split: SplitOption = None,
        pipeline: PipelineOption = None,
        tiles: TilesOption = None,
        inputs: Annotated[
            Path | None,
            typer.Option(
                help="Inputs by name (.npz); missing ones are random.", show_default=False
            ),
        ] = None,
        outputs: Annotated[
            Path | None,
            typer.Option(help="File for the outputs (.npz).", show_default=False),
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
        iterations: Annotated[
            int,
            typer.Option(min=1, help="Number of runs; of a pipeline, micro-batches of its run."),
        ] = 1,
        report: Annotated[
            Path | None,
            typer.Option(
                help="Directory of the report; default ./report.",
                show_default=False,
                parser=directory_of,
                metavar="<path>",
            ),
        ] = None,
        no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
        cache: Annotated[
            Path | None,
            typer.Option(
                help="Directory of the executable cache; created if missing.",
                show_default=False,
                parser=directory_of,
                metavar="<path>",
            ),
        ] = None,
        operators: OperatorsOption = None,
        shape: ShapeOption = None,
        dim: DimOption = None,
        batch: BatchOption = None,
        batch_parts: BatchPartsOption = 1,
        offload: OffloadOption = None,
        io_tiles: IoTilesOption = 0,
        setting: SettingOption = None,
        available_memory_proportion: Annotated[
            float | None,
            typer.Option(
                help="Share of tile memory available to a convolution or product, above 0 and up to"
                " 1; default 0.6. Less memory may cost cycles.",
                show_default=False,
            ),
        ] = None,
        precision: PrecisionOption = "float",
        half_policy: HalfPolicyOption = "throughout",
        keep_float: KeepFloatOption = None,
        in_half: InHalfOption = None,
        half_partials: HalfPartialsOption = None,
        partials: Annotated[
            str | None,
            typer.Option(
                help="Type of the partial sums of convolutions and products in half: float or half;"
                " default float.",
                show_default=False,
            ),
        ] = None,
        synthetic_data: Annotated[
            str | None,
            typer.Option(
                help="Data on the device in place of inputs: zeros, random_normal or"
                " random_uniform. Nothing is copied from and to the host.",
                show_default=False,
            ),
        ] = None,
        option: EngineOption = None,
        verify: Annotated[
            bool,
            typer.Option(
                "--verify",
                help="Compare the outputs with onnxruntime's; exit with 1 if roundings do not"
                " explain a difference.",
            ),
        ] = False,
        as_json: AsJson = False,
        quiet: QuietOption = False,
    ) -> None:
        """Run a model on a simulated machine and profile it."""
        from tilescope.engine.frontend.source_model import Setup
        from tilescope.engine.frontend.torch.torch_file import TorchFile
        from tilescope.engine.host.memory import within_available
        from tilescope.engine.options import missing_report, resolve
        from tilescope.engine.recorder.recording import without_warnings_of_loss
        from tilescope.engine.session.model_run import read_inputs, run_model, write_outputs

        if as_json and quiet:
            raise typer.BadParameter("--json and --quiet are mutually exclusive")
        load_operator_files(operators)
        source = source_of(model)
        if verify and isinstance(source, TorchFile):
            raise typer.BadParameter(
                "--verify compares an ONNX model with onnxruntime; in Python, compare the outputs"
                " with those of the module"
            )
        if verify and replicas > 1:
            raise typer.BadParameter(
                "--verify compares one replica, and --replicas asks for several: leave one out"
            )
        besides = ((inputs, "--inputs"), (outputs, "--outputs"), (verify or None, "--verify"))
        for given_too, name in besides:
            if synthetic_data is not None and given_too is not None:
                raise typer.BadParameter(f"--synthetic-data and {name} are mutually exclusive")
        flags = _report_flags(report, is_written=not no_report)
        if available_memory_proportion is not None:
            flags["--available-memory-proportion"] = memory_of(available_memory_proportion)
        if partials is not None:
            flags["--partials"] = partials_of(partials)
        if cache is not None:
            flags["--cache"] = {"enableEngineCaching": True, "cachePath": str(cache)}
        engine_options = options_of(option or [], flags)
        defaults = {"autoReport.all": True, "autoReport.directory": "report"}
        options = resolve(command_line=engine_options, code=defaults)
        simulated = machine_of(machine, ipus, replicas, tiles, parameters)
        setup = Setup(
            shapes_of(shape or []),
            batch,
            settings_of(setting or []),
            precision,
            synthetic_data,
            dims_of(dim or []),
            policy=policy_of(precision, half_policy, keep_float, in_half, half_partials),
            batch_parts=batch_parts,
            locations=locations_of(offload or [], [], io_tiles),
        )
        setup = with_split(source, setup, split, pipeline, simulated)
        given = None if inputs is None else read_inputs(inputs)
        if given is None and synthetic_data is None and isinstance(source, TorchFile):
            given = source.examples(setup)
        with phases(quiet) as tell, within_available(), without_warnings_of_loss():
            outcome = run_model(
                source,
                simulated,
                options,
                inputs=given,
                setup=setup,
                seed=seed,
                iterations=iterations,
                n_computed_replicas=computed_of(replicas_computed, replicas),
                progress=tell,
            )
        if outputs is not None:
            write_outputs(outputs, outcome.outputs)
        values = settings_of(setting or [])
        checks = _verified(model, outcome, values, precision) if verify else ()
        missing = "" if report is None else missing_report(options, report, "--report") or ""
        if as_json:
            document = _as_json(outcome, model, outputs) | {"notice": missing or None}
            document |= {"split": dict(setup.split)} if setup.split else {}
            document |= {"pipeline": dict(setup.pipeline)} if setup.pipeline else {}
            print_json(document | ({"verified": _checks_json(checks)} if verify else {}))
        elif not quiet:
            _print(outcome, model, outputs, checks)
            for line in [
                *explained(source, setup, split, pipeline),
                *filter(None, [missing]),
            ]:
                print_line(line)
        _require_report(outcome.lost)
        if not all(check.agrees for check in checks):
            raise typer.Exit(EXIT_DIFFERENT)


def _report_flags(report: Path | None, *, is_written: bool) -> dict[str, dict[str, object]]:
    """Return what the flags about the report say of engine options, by flag.

    Raises
    ------
    typer.BadParameter
        When one names a directory and the other wants no report.
    """
    if not is_written and report is not None:
        raise typer.BadParameter("--report and --no-report are mutually exclusive")
    if not is_written:
        return {"--no-report": {"autoReport.all": False}}
    if report is None:
        return {}
    return {"--report": {"autoReport.all": True, "autoReport.directory": str(report)}}


def _verified(
    model: Path, outcome: ModelRun, values: Mapping[str, ArrayLike], precision: str
) -> tuple[OutputCheck, ...]:
    """Return the outputs of a run beside onnxruntime's, where values that are set are inputs."""
    from tilescope.engine.frontend.onnx.peer import compare_with_peer, with_settings

    inputs = with_settings(model, outcome.inputs, values)
    return compare_with_peer(model, inputs, outcome.outputs, precision)


def _checks_json(checks: Sequence[OutputCheck]) -> list[dict[str, object]]:
    """Return checks as JSON, which has no infinity."""
    return [
        {
            "name": check.name,
            "agrees": check.agrees,
            "difference": check.difference if isfinite(check.difference) else None,
            "noise": check.noise,
            "largest": check.largest,
            "reason": check.reason or None,
        }
        for check in checks
    ]


def _check_line(check: OutputCheck) -> str:
    """Return a check in a sentence."""
    word = "agrees with" if check.agrees else "DIFFERS from"
    if check.reason:
        return f"Output {check.name} {word} onnxruntime: {check.reason}"
    return (
        f"Output {check.name} {word} onnxruntime: at most {check.difference:.3g} apart, roundings"
        f" explain {check.noise:.3g} and a few times as much, largest {check.largest:.3g}"
    )


def _require_report(lost: str) -> None:
    """End with the reason why the report is missing, after the results.

    Raises
    ------
    ReportNotWritable
        When there is a reason.
    """
    from tilescope.reports import ReportNotWritable

    if lost:
        raise ReportNotWritable(lost)


def _as_json(outcome: ModelRun, model: Path, outputs: Path | None) -> dict[str, object]:
    """Return what ran, its cycles and memory, and where the files are."""
    executable = outcome.compiled.executable
    machine, memory = executable.machine, executable.memory
    return {
        "model": str(model),
        "machine": {
            "name": machine.name,
            "n_ipus": machine.n_system_ipus,
            "n_replicas": machine.n_replicas,
            "tiles_per_ipu": machine.tiles_per_ipu,
            "clock_hz": machine.clock_hz,
        },
        "total_cycles": outcome.cycles,
        "time_s": outcome.cycles / machine.clock_hz,
        "max_tile_bytes": int(memory.excluding_gaps.max()),
        "max_address_bytes": int(memory.including_gaps.max()),
        "capacity_bytes": machine.allocatable_bytes,
        "notices": [notice.message for notice in executable.notices],
        "assumed_ones": list(outcome.compiled.model.assumed_ones),
        "outputs": [
            {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
            for name, array in outcome.outputs.items()
        ],
        "outputs_path": None if outputs is None else str(outputs),
        "report_path": None if outcome.report is None else str(outcome.report),
        "report_lost": outcome.lost or None,
    }


def _print(
    outcome: ModelRun, model: Path, outputs: Path | None, checks: Sequence[OutputCheck]
) -> None:
    executable = outcome.compiled.executable
    machine = executable.machine
    print_line(
        f"Ran {model.name} on {machine.name}: {outcome.cycles:,} cycles,"
        f" {outcome.cycles / machine.clock_hz * 1e6:,.1f} µs at {machine.clock_hz / 1e9:g} GHz"
    )
    for notice in executable.notices:
        print_line(notice.message)
    for name in outcome.compiled.model.assumed_ones:
        sizes = {value.name: value.shape for value in outcome.compiled.model.inputs}[name]
        print_line(
            f"Input {name}: its dynamic first dimension was set to 1;"
            " to change it, use --batch, or"
            f" --shape {name}={','.join(map(str, sizes))} with another size"
        )
    fullest = int(executable.memory.excluding_gaps.max())
    print_line(f"Fullest tile: {fullest:,} of {machine.allocatable_bytes:,} bytes")
    for name, array in outcome.outputs.items():
        print_line(f"Output {name}: {array.dtype} {array.shape}")
    for check in checks:
        print_line(_check_line(check))
    if outputs is not None:
        print_line(f"Outputs: {outputs}", is_whole=True)
    if outcome.report is not None:
        print_line(f"Report: {outcome.report}", is_whole=True)
        folder = outcome.report.parent
        print_line(
            f"Next: tilescope summary {folder}, tilescope serve {folder}",
            is_whole=True,
        )
