"""Arguments of ``tilescope run`` that are texts: paths, options, shapes and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tilescope.completion import complete_machine
from tilescope.console import progress

if TYPE_CHECKING:
    from tilescope.engine.frontend.source_model import SourceModel
    from tilescope.engine.ir import Locations
    from tilescope.engine.ir.half_policy import HalfPolicy
    from tilescope.engine.machine import Machine

__all__ = [
    "BatchOption",
    "BatchPartsOption",
    "DimOption",
    "EngineOption",
    "HalfPartialsOption",
    "HalfPolicyOption",
    "InHalfOption",
    "IoTilesOption",
    "IpusOption",
    "KeepFloatOption",
    "MachineOption",
    "OffloadOption",
    "OperatorsOption",
    "ParametersOption",
    "PipelineOption",
    "PrecisionOption",
    "QuietOption",
    "ReplicasComputedOption",
    "ReplicasOption",
    "SettingOption",
    "ShapeOption",
    "SplitOption",
    "TilesOption",
    "computed_of",
    "dims_of",
    "directory_of",
    "load_operator_files",
    "locations_of",
    "machine_of",
    "memory_of",
    "options_of",
    "partials_of",
    "phases",
    "policy_of",
    "settings_of",
    "shapes_of",
    "source_of",
    "steps_of",
    "terms_of",
]


ShapeOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Shape of an input with dynamic dimensions, as name=d0,d1; repeatable.",
        show_default=False,
    ),
]
DimOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Size of a symbolic dimension, for all inputs that have it; repeatable.",
        show_default=False,
    ),
]
MachineOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="A preset (gc2, gc200, bow, c600) or a machine file (TOML).",
        autocompletion=complete_machine,
    ),
]
BatchOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Size of the first dimension of every input that leaves it open; default 1.",
        show_default=False,
    ),
]
BatchPartsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--batch-parts",
        min=1,
        help="Equal parts of the batch to compute one after another, to save memory.",
    ),
]
OffloadOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--offload",
        metavar="KIND[:least=N]",
        help="Keep values in streaming memory: weights, optimizer-state, accumulators or"
        " activations; those of N elements or more, by default 2; repeatable.",
        show_default=False,
    ),
]
IoTilesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--io-tiles",
        min=0,
        help="With --offload, tiles of every IPU that copy while the others compute; even.",
    ),
]
SettingOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Values of an input that shapes depend on, as name=v0,v1; fixed at compile"
        " time; repeatable.",
        show_default=False,
    ),
]
PrecisionOption: TypeAlias = Annotated[
    str, typer.Option(help="Type of what the model computes in float: float or half.")
]
HalfPolicyOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--half-policy",
        help="With --precision half, what computes in half: throughout (everything) or mixed"
        " (products; in float what leaves the range of half).",
    ),
]
KeepFloatOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-float",
        metavar="ENTRY,…",
        help="With --precision half, what stays in float all the same: operators such as Softmax,"
        " nodes, or patterns of their names such as '/encoder/*'; repeatable.",
        show_default=False,
    ),
]
InHalfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--in-half",
        metavar="ENTRY,…",
        help="With --precision half, what computes in half all the same, likewise; --keep-float"
        " takes precedence, except over nodes that are named in full.",
        show_default=False,
    ),
]
HalfPartialsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--half-partials",
        metavar="ENTRY,…",
        help="Products and convolutions whose partial sums are half, likewise.",
        show_default=False,
    ),
]


ParametersOption: TypeAlias = Annotated[
    str, typer.Option(help="Parameter set: hardware or ipu_model.")
]
IpusOption: TypeAlias = Annotated[
    int, typer.Option(help="Number of IPUs, 1 to 64; those of all replicas.")
]
ReplicasOption: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1, help="Replicas, which run on data of their own at once; they share --ipus evenly."
    ),
]
ReplicasComputedOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Compute the values of K replicas only, and cost all; the others count as if they held"
        " the same. Less time and memory of this computer.",
        show_default=False,
    ),
]
SplitOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar="NODE=IPU,…",
        help="Nodes on IPUs of --ipus, by name or pattern, such as '/encoder/*=0,/decoder/*=1'; of"
        " several that fit, the last counts. Others run where the largest of their inputs is;"
        " repeatable. auto balances the work by itself.",
        show_default=False,
    ),
]
PipelineOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        metavar="STAGES",
        help="Run stages at a time, each on another micro-batch: their number, with equal work, or"
        " NODE=STAGE,… by name or pattern; repeatable. A stage is on the IPU of its number, unless"
        " --split states another.",
        show_default=False,
    ),
]
OperatorsOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--operators",
        help="Python file that registers operators of your own (engine.custom_operator);"
        " repeatable.",
        show_default=False,
    ),
]
TilesOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Tiles per IPU; all by default.", show_default=False)
]
EngineOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Engine option, as KEY=VALUE; repeatable. POPLAR_ENGINE_OPTIONS takes precedence.",
        show_default=False,
    ),
]
QuietOption: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")
]


@contextmanager
def phases(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the current phase on a terminal; nothing in a pipe, or if quiet."""
    if quiet:
        yield lambda _: None
        return
    with progress("Compiling", after_s=0) as tell:
        yield tell


def load_operator_files(paths: list[Path] | None) -> None:
    """Run the files of ``--operators``."""
    if paths:
        from tilescope.engine.frontend.operator_file import load_operators

        for path in paths:
            load_operators(path)


def source_of(model: Path) -> SourceModel:
    """Return the model that a command line names: a file of ONNX or of PyTorch, or a function."""
    from tilescope.engine.frontend.torch.torch_file import TorchFile, is_torch_file

    if is_torch_file(str(model)):
        return TorchFile(model)
    from tilescope.engine.frontend.onnx.onnx_file import OnnxFile

    return OnnxFile(model)


def directory_of(text: str) -> Path:
    """Return the path of a directory; reject an empty string, which means the current one."""
    if not text.strip():
        raise typer.BadParameter("expected a directory such as ./report, got an empty string")
    return Path(text)


def memory_of(share: float) -> dict[str, object]:
    """Return the options that set a share of memory for convolutions and products."""
    from tilescope.engine.options.available_memory import is_proportion
    from tilescope.engine.options.catalogue import CONVOLUTION_MEMORY, MATMUL_MEMORY

    if not is_proportion(share):
        raise typer.BadParameter(
            f"--available-memory-proportion must be above 0 and at most 1, got {share:g}"
        )
    return {CONVOLUTION_MEMORY: share, MATMUL_MEMORY: share}


def partials_of(name: str) -> dict[str, object]:
    """Return the options that set the type of partial sums of convolutions and products."""
    from tilescope.engine.options.catalogue import CONVOLUTION_PARTIALS, MATMUL_PARTIALS

    return {CONVOLUTION_PARTIALS: name, MATMUL_PARTIALS: name}


def policy_of(
    precision: str,
    name: str,
    keep_float: list[str] | None,
    in_half: list[str] | None,
    half_partials: list[str] | None,
) -> HalfPolicy:
    """Return the policy of half; reject entries for a model that computes in float."""
    from tilescope.engine.ir.half_policy import HalfPolicy

    entries = {"keep_float": keep_float, "in_half": in_half, "half_partials": half_partials}
    split = {
        option: tuple(filter(None, (e.strip() for text in texts or [] for e in text.split(","))))
        for option, texts in entries.items()
    }
    for option, stated in split.items():
        if stated and precision != "half":
            flag = f"--{option.replace('_', '-')}"
            raise typer.BadParameter(f"{flag} needs --precision half")
    return HalfPolicy.named(name, **split)


def options_of(texts: list[str], flags: dict[str, dict[str, object]]) -> dict[str, object]:
    """Parse ``KEY=VALUE`` and merge the options of other flags; reject duplicates."""
    set_by = {key: flag for flag, values in flags.items() for key in values}
    options = {key: value for values in flags.values() for key, value in values.items()}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"expected KEY=VALUE for --option, got {text}")
        if key in options:
            raise typer.BadParameter(
                f"--option {text} and {set_by[key]} both set {key}; remove one of them"
            )
        options[key] = value
        set_by[key] = "another --option"
    return options


def shapes_of(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """Parse ``name=d0,d1``."""
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(","))
        except ValueError:
            shape = ()
        if not name or not shape or min(shape) < 0:
            raise typer.BadParameter(
                f"expected name=d0,d1 with sizes of at least 0 for --shape, got {text}"
            )
        shapes[name] = shape
    return shapes


def dims_of(texts: list[str]) -> dict[str, int]:
    """Parse ``NAME=SIZE``; reject a name that is given two sizes."""
    dims: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not (size.isascii() and size.isdigit() and len(size) <= _MOST_DIGITS):
            raise typer.BadParameter(
                f"expected NAME=SIZE with a size of at least 0 for --dim, got {text}"
            )
        if dims.setdefault(name, int(size)) != int(size):
            raise typer.BadParameter(f"--dim {name} has two sizes, {dims[name]} and {size}")
    return dims


#: Of a size; no tensor has more elements.
_MOST_DIGITS = 12
_WORDS = {"true": True, "false": False}


def settings_of(texts: list[str]) -> dict[str, list[int | float | bool]]:
    """Parse ``name=v0,v1``: whole numbers, floats, or true and false."""

    def number(text: str) -> int | float | bool:
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        try:
            return int(text)
        except ValueError:
            return float(text)

    settings = {}
    for text in texts:
        name, _, values = text.rpartition("=")
        try:
            numbers = [number(value.strip()) for value in values.split(",")]
        except ValueError:
            numbers = []
        if not name or not numbers:
            raise typer.BadParameter(
                f"expected name=v0,v1 with numbers, or true and false, for --set, got {text}"
            )
        settings[name] = numbers
    return settings


def terms_of(flag: str, text: str) -> tuple[str, dict[str, str]]:
    """Parse ``KIND:NAME=VALUE,NAME=VALUE``; reject a name that is given twice."""
    kind, colon, rest = text.partition(":")
    terms: dict[str, str] = {}
    for term in rest.split(",") if colon else []:
        name, equals, value = term.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"expected KIND:NAME=VALUE,… for {flag}, got {text}")
        if name in terms:
            raise typer.BadParameter(f"{flag} {text} gives {name} twice")
        terms[name] = value
    return kind, terms


def steps_of(text: str) -> frozenset[int]:
    """Parse ``1,100-102``: numbers of steps, from 1."""
    steps: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        numbers = (first, last if dash else first)
        if not all(n.isascii() and n.isdigit() and len(n) <= _MOST_DIGITS for n in numbers):
            raise typer.BadParameter(f"expected numbers of steps such as 1,100-102, got {text}")
        low, high = map(int, numbers)
        if not 1 <= low <= high or high - low >= _MOST_STEPS:
            raise typer.BadParameter(
                f"the steps {part} are none, or more than {_MOST_STEPS:,}: steps count from 1"
            )
        steps.update(range(low, high + 1))
    return frozenset(steps)


#: Steps of a range.
_MOST_STEPS = 1_000_000


def machine_of(name: str, ipus: int, replicas: int, tiles: int | None, parameters: str) -> Machine:
    """Return the machine of ``--machine``, ``--ipus`` and ``--replicas``.

    Raises
    ------
    typer.BadParameter
        When the replicas do not divide the IPUs.
    """
    from tilescope.engine.machine import load_machine

    if ipus % replicas:
        raise typer.BadParameter(
            f"--replicas {replicas} does not divide --ipus {ipus}, the IPUs of all of them: give"
            f" --ipus {replicas} or a multiple of it"
        )
    return load_machine(
        name,
        n_ipus=ipus // replicas,
        n_replicas=replicas,
        tiles_per_ipu=tiles,
        parameter_set=parameters,
    )


def computed_of(computed: int | None, replicas: int) -> int | None:
    """Return the number of replicas that are computed, as ``--replicas-computed`` states it.

    Raises
    ------
    typer.BadParameter
        When there are fewer replicas.
    """
    if computed is not None and computed > replicas:
        raise typer.BadParameter(
            f"--replicas-computed is {computed}, and --replicas {replicas}: give at most that"
        )
    return computed


def locations_of(offload: list[str], shard: list[str], n_io_tiles: int) -> Locations:
    """Parse ``KIND`` or ``KIND:least=N`` of ``--offload`` and ``--shard``; add I/O tiles.

    Raises
    ------
    typer.BadParameter
        When the number is none, another option follows the kind, or I/O tiles have nothing to do.
    """
    from tilescope.engine.ir import Location, LocationRule, Locations

    least: dict[str, dict[str, int | None]] = {"--offload": {}, "--shard": {}}
    for flag, texts in (("--offload", offload), ("--shard", shard)):
        for text in texts:
            kind, terms = terms_of(flag, text)
            number = terms.pop("least", None)
            if terms or (number is not None and not number.isdecimal()):
                raise typer.BadParameter(f"expected KIND or KIND:least=N for {flag}, got {text}")
            least[flag][kind] = None if number is None else int(number)
    rules = {}
    for kind in dict.fromkeys([*least["--offload"], *least["--shard"]]):
        location = Location(kind in least["--offload"], kind in least["--shard"])
        stated = {
            "least_off_chip": least["--offload"].get(kind),
            "least_sharded": least["--shard"].get(kind),
        }
        known = {name: number for name, number in stated.items() if number is not None}
        rules[kind] = LocationRule(location, **known)
    if n_io_tiles and not offload:
        raise typer.BadParameter("--io-tiles needs --offload")
    return Locations(rules, n_io_tiles=n_io_tiles)
