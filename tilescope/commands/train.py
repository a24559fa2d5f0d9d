"""``tilescope train``: train a model on a simulated machine."""

from __future__ import annotations

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
    options_of,
    phases,
    policy_of,
    settings_of,
    shapes_of,
    source_of,
    steps_of,
    terms_of,
)

if TYPE_CHECKING:
    from tilescope.engine.session.training_run import TrainingResult
    from tilescope.engine.training import Descent, Loss, Schedule

__all__ = ["register"]

#: Losses that a text result shows, from first to last.
_N_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the command ``train``."""

    @app.command(
        epilog=examples(
            "train model.onnx --loss cross-entropy --data digits.npz --output trained.onnx",
            "train model.onnx --loss nll --data digits.npz --optimizer sgd:lr=0.01,momentum=0.9",
            "train model.onnx --loss nll --data digits.npz --optimizer adamw:lr=0.001"
            " --optimizer-for '*bias:weight_decay=0' --schedule cosine:warmup=100",
            "train model.onnx --loss mse --labels target --data data.npz --batch 16 --accumulate 4",
            "train model.onnx --loss cross-entropy:ignored=-1 --data data.npz --epochs 3"
            " --checkpoint state.npz",
            "train model.onnx --loss cross-entropy --data data.npz --epochs 6"
            " --checkpoint state.npz --resume",
            "train model.onnx --loss cross-entropy --data data.npz --recompute standard",
            "train model.onnx --loss cross-entropy --data data.npz --ipus 2 --pipeline 2"
            " --accumulate 8",
            "train model.onnx --loss cross-entropy --data data.npz --ipus 4 --replicas 4",
            "train model.onnx --loss cross-entropy --data data.npz --optimizer adam"
            " --offload optimizer-state",
            "train model.onnx --loss cross-entropy --data data.npz --report out"
            " --report-steps 1,100-102",
        )
    )
    def train(
        model: Annotated[
            Path,
            typer.Argument(
                help="ONNX file, .pt2 file, or FILE.py:FUNCTION that returns a PyTorch module.",
                show_default=False,
            ),
        ],
        loss: Annotated[
            str,
            typer.Option(
                help="What is minimised: cross-entropy, nll, ctc, mse, l1 or identity, with options"
                " such as :reduction=sum, :ignored=-1 (a class), :output=NAME, :factor=0.5.",
                show_default=False,
            ),
        ],
        data: Annotated[
            Path,
            typer.Option(
                help="Inputs and labels by name (.npz), the first dimension being samples.",
                show_default=False,
            ),
        ],
        labels: Annotated[str, typer.Option(help="Name of the labels in the data.")] = "labels",
        optimizer: Annotated[
            str,
            typer.Option(
                help="How weights change: sgd, adam, adamw, adamax, lamb, adagrad, rmsprop or"
                " adadelta, with options such as :lr=0.001,weight_decay=0.01,clip_norm=1,"
                "loss_scaling=automatic."
            ),
        ] = "sgd:lr=0.01",
        optimizer_for: Annotated[
            list[str] | None,
            typer.Option(
                "--optimizer-for",
                metavar="PATTERN:NAME=VALUE,…",
                help="Options of the optimizer for weights whose names match a pattern, such"
                " as '*.bias:weight_decay=0'; repeatable, the last match holds.",
                show_default=False,
            ),
        ] = None,
        schedule: Annotated[
            str,
            typer.Option(
                help="How the rate changes from step to step: constant, linear, cosine,"
                " polynomial, exponential or step, with options such as :warmup=100,steps=1000,"
                "end=0.1."
            ),
        ] = "constant",
        epochs: Annotated[int, typer.Option(min=1, help="Times that all data are used.")] = 1,
        batch: BatchOption = None,
        batch_parts: BatchPartsOption = 1,
        offload: OffloadOption = None,
        io_tiles: IoTilesOption = 0,
        shard: Annotated[
            list[str] | None,
            typer.Option(
                metavar="KIND[:least=N]",
                help="With --replicas, keep a shard per replica: optimizer-state; of weights of N"
                " elements or more, by default 8192.",
                show_default=False,
            ),
        ] = None,
        accumulate: Annotated[
            int,
            typer.Option(min=1, help="Micro-batches of a step, whose gradients are averaged."),
        ] = 1,
        recompute: Annotated[
            str,
            typer.Option(
                help="What of the forward pass is computed again for the backward pass, to save"
                " memory: none, standard, norm, all or pipeline."
            ),
        ] = "none",
        recompute_nodes: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PATTERN",
                help="Nodes to compute again besides, as a pattern of names; repeatable.",
                show_default=False,
            ),
        ] = None,
        keep_nodes: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PATTERN",
                help="Nodes whose results stay all the same, as a pattern of names; repeatable.",
                show_default=False,
            ),
        ] = None,
        train_only: Annotated[
            list[str] | None,
            typer.Option(
                "--train-only",
                metavar="PATTERN",
                help="Weights to train, as a pattern of names; repeatable; default all.",
                show_default=False,
            ),
        ] = None,
        freeze: Annotated[
            list[str] | None,
            typer.Option(
                metavar="PATTERN",
                help="Weights to leave as they are, as a pattern of names; repeatable.",
                show_default=False,
            ),
        ] = None,
        seed: Annotated[
            int, typer.Option(min=0, help="Seed of the order of the data and of dropout.")
        ] = 0,
        no_shuffle: Annotated[
            bool, typer.Option("--no-shuffle", help="Take the data in their order.")
        ] = False,
        output: Annotated[
            Path | None,
            typer.Option(help="File for the model with trained weights.", show_default=False),
        ] = None,
        checkpoint: Annotated[
            Path | None,
            typer.Option(
                help="File of the checkpoint (.npz), written after every epoch.",
                show_default=False,
            ),
        ] = None,
        checkpoint_steps: Annotated[
            int | None,
            typer.Option(min=1, help="Steps between two checkpoints instead.", show_default=False),
        ] = None,
        resume: Annotated[
            bool, typer.Option("--resume", help="Go on from the checkpoint.")
        ] = False,
        on_nan: Annotated[
            str, typer.Option(help="After a loss that is no number: stop or skip the step.")
        ] = "stop",
        machine: MachineOption = "gc200",
        parameters: ParametersOption = "hardware",
        ipus: IpusOption = 1,
        replicas: ReplicasOption = 1,
        replicas_computed: ReplicasComputedOption = None,
        split: SplitOption = None,
        pipeline: PipelineOption = None,
        tiles: TilesOption = None,
        report: Annotated[
            Path | None,
            typer.Option(
                help="Directory of a report; none is written without it.",
                show_default=False,
                parser=directory_of,
                metavar="<path>",
            ),
        ] = None,
        report_steps: Annotated[
            str | None,
            typer.Option(
                metavar="STEPS",
                help="Steps that the report has, such as 1,100-102; default the first 10.",
                show_default=False,
            ),
        ] = None,
        operators: OperatorsOption = None,
        shape: ShapeOption = None,
        dim: DimOption = None,
        setting: SettingOption = None,
        precision: PrecisionOption = "float",
        half_policy: HalfPolicyOption = "mixed",
        keep_float: KeepFloatOption = None,
        in_half: InHalfOption = None,
        half_partials: HalfPartialsOption = None,
        half_weights: Annotated[
            bool,
            typer.Option(
                "--half-weights",
                help="With --precision half, keep weights in half only. By default they are kept in"
                " float, and copied to half in every step.",
            ),
        ] = False,
        count_overflows: Annotated[
            bool,
            typer.Option(
                "--count-overflows",
                help="Count values that are infinite or no numbers in half, by pass; takes cycles.",
            ),
        ] = False,
        option: EngineOption = None,
        as_json: AsJson = False,
        quiet: QuietOption = False,
    ) -> None:
        """Train a model on a simulated machine."""
        from tilescope.engine.frontend.onnx.facts.trainables import write_trained
        from tilescope.engine.frontend.source_model import Setup
        from tilescope.engine.frontend.torch.torch_file import TorchFile
        from tilescope.engine.host.memory import within_available
        from tilescope.engine.ir import Recomputation
        from tilescope.engine.options import resolve
        from tilescope.engine.recorder.recording import without_warnings_of_loss
        from tilescope.engine.session.model_run import check_writable, read_inputs
        from tilescope.engine.session.training_run import Course, train_model

        if as_json and quiet:
            raise typer.BadParameter("--json and --quiet are mutually exclusive")
        load_operator_files(operators)
        source = source_of(model)
        if report_steps is not None and report is None:
            raise typer.BadParameter("--report-steps needs --report")
        recorded_steps = steps_of(report_steps or "1-10")
        for path in (output, checkpoint):
            if path is not None:
                check_writable(path)
        flags = {}
        if report is not None:
            flags["--report"] = {
                "autoReport.all": True,
                "autoReport.directory": str(report),
                "autoReport.executionProfileProgramRunCount": len(recorded_steps),
            }
        options = resolve(command_line=options_of(option or [], flags))
        simulated = machine_of(machine, ipus, replicas, tiles, parameters)
        course = Course(
            epochs=epochs,
            n_rounds=accumulate,
            seed=seed,
            is_shuffled=not no_shuffle,
            checkpoint=checkpoint,
            checkpoint_steps=checkpoint_steps or 0,
            is_resumed=resume,
            on_nan=on_nan,
            recomputation=Recomputation(
                recompute, tuple(recompute_nodes or []), tuple(keep_nodes or [])
            ),
            schedule=_schedule(schedule),
            recorded_steps=recorded_steps,
            counts_overflows=count_overflows,
        )
        setup = Setup(
            shapes_of(shape or []),
            batch,
            settings_of(setting or []),
            precision,
            None,
            dims_of(dim or []),
            tuple(train_only or ["*"]),
            tuple(freeze or []),
            has_masters=not half_weights,
            policy=policy_of(precision, half_policy, keep_float, in_half, half_partials),
            batch_parts=batch_parts,
            locations=locations_of(offload or [], shard or [], io_tiles),
        )
        setup = with_split(source, setup, split, pipeline, simulated)
        with phases(quiet) as tell, within_available(), without_warnings_of_loss():
            outcome = train_model(
                source,
                simulated,
                options,
                data=read_inputs(data),
                loss=_loss(loss, labels),
                optimiser=_optimiser(optimizer, optimizer_for or []),
                course=course,
                setup=setup,
                facts={"data_name": data.name},
                n_computed_replicas=computed_of(replicas_computed, replicas),
                progress=tell,
            )
        if output is not None and isinstance(source, TorchFile):
            source.write_trained(outcome.weights, output)
        elif output is not None:
            write_trained(model, outcome.weights, output)
        if as_json:
            print_json(_as_json(outcome, model, output, checkpoint))
        elif not quiet:
            _print(outcome, model, output, checkpoint)
            for line in explained(source, setup, split, pipeline):
                print_line(line)


def _loss(text: str, labels: str) -> Loss:
    """Parse ``KIND:NAME=VALUE,…``.

    Raises
    ------
    typer.BadParameter
        When an option is unknown, or its value is no number where one is expected.
    """
    from tilescope.engine.training import Loss

    kind, terms = terms_of("--loss", text)
    known: tuple[str, ...] = ("reduction", "ignored", "output", "of", "factor")
    if kind == "ctc":
        known = (*known, "blank", "steps", "lengths", "longest", "zero_infinity")
    for name in terms:
        if name not in known:
            raise typer.BadParameter(f"--loss has no option {name!r}: it has {', '.join(known)}")
    zero_infinity = terms.get("zero_infinity", "false")
    if zero_infinity not in ("true", "false"):
        raise typer.BadParameter(f"--loss {text}: zero_infinity is true or false")
    try:
        ignored = int(terms["ignored"]) if "ignored" in terms else None
        factor = float(terms.get("factor", 1))
        blank, longest = (int(terms.get(name, 0)) for name in ("blank", "longest"))
    except ValueError:
        numbers = "ignored, factor, blank and longest"
        raise typer.BadParameter(f"--loss {text}: {numbers} are numbers") from None
    return Loss(
        kind=kind,
        output=terms.get("output", ""),
        labels=labels,
        reduction=terms.get("reduction", "mean"),
        ignored=ignored,
        of=terms.get("of", ""),
        factor=factor,
        blank=blank,
        steps=terms.get("steps", ""),
        lengths=terms.get("lengths", ""),
        longest=longest,
        zero_infinity=zero_infinity == "true",
    )


def _optimiser(text: str, of_weights: list[str]) -> Descent:
    """Parse ``NAME:NAME=VALUE,…``, and what weights of a pattern have instead.

    Raises
    ------
    typer.BadParameter
        When the optimiser does not exist.
    """
    from tilescope.engine.training import OPTIMISERS

    kind, terms = terms_of("--optimizer", text)
    if kind not in OPTIMISERS:
        raise typer.BadParameter(f"there is no optimizer {kind!r}: choose {', '.join(OPTIMISERS)}")
    optimiser = OPTIMISERS[kind].parsed(terms)
    for part in of_weights:
        pattern, colon, own_text = part.rpartition(":")  # names of weights may have a colon
        if not (pattern and colon):
            raise typer.BadParameter(
                f"expected PATTERN:NAME=VALUE,… for --optimizer-for, got {part}"
            )
        _, own = terms_of("--optimizer-for", f"{kind}:{own_text}")
        optimiser = optimiser.with_specific(pattern, own)
    return optimiser


def _schedule(text: str) -> Schedule:
    """Parse ``KIND:NAME=VALUE,…``."""
    from tilescope.engine.training import Schedule

    kind, terms = terms_of("--schedule", text)
    return Schedule.parsed(kind, terms)


def _as_json(
    outcome: TrainingResult, model: Path, output: Path | None, checkpoint: Path | None
) -> dict[str, object]:
    from math import isfinite

    return {
        "model": str(model),
        "n_steps": len(outcome.losses),
        "n_skipped": outcome.n_skipped,
        "n_overflows": outcome.n_overflows,
        "overflows": dict(outcome.overflows),
        "n_unused": outcome.n_unused,
        "losses": [loss if isfinite(loss) else None for loss in outcome.losses],
        "step_cycles": outcome.cycles,
        "output_path": None if output is None else str(output),
        "checkpoint_path": None if checkpoint is None else str(checkpoint),
        "report_path": None if outcome.report is None else str(outcome.report),
        "report_lost": outcome.lost or None,
    }


def _print(
    outcome: TrainingResult, model: Path, output: Path | None, checkpoint: Path | None
) -> None:
    losses = outcome.losses
    print_line(f"Trained {model.name}: {len(losses):,} steps of {outcome.cycles:,} cycles")
    if losses:
        n = max(1, len(losses) // _N_SHOWN)
        shown = losses[::n][:_N_SHOWN]
        print_line(f"Loss {' '.join(f'{value:.4g}' for value in shown)}, last {losses[-1]:.4g}")
    if outcome.n_skipped:
        print_line(f"Skipped steps, whose loss was no number: {outcome.n_skipped:,}")
    if outcome.n_overflows is not None:
        print_line(f"Steps left out since gradients overflowed: {outcome.n_overflows:,}")
    if outcome.overflows:
        counts = ", ".join(f"{kind} {n:,}" for kind, n in outcome.overflows.items())
        print_line(f"Values beyond half by pass: {counts}")
    if outcome.n_unused:
        print_line(f"Samples that make no whole step, left out: {outcome.n_unused:,}")
    for label, path in (("Model", output), ("Checkpoint", checkpoint), ("Report", outcome.report)):
        if path is not None:
            print_line(f"{label}: {path}")
