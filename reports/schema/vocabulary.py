"""The codes in rows of a report, with their meanings: the single definition.

Writers and readers look codes up here; an unknown code is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BOUNDS",
    "CONTROL",
    "ENGINE_LAYERS",
    "HOST_RECORDS",
    "MEMORY_CATEGORIES",
    "MEMORY_CATEGORY",
    "MEMORY_ROWS",
    "PHASES",
    "PHASE_LABELS",
    "PROGRAM_KINDS",
    "PURPOSES",
    "REGIONS",
    "SLICE_KINDS",
    "SYNC_ZONES",
    "TRAINING_PASSES",
    "Category",
    "Kind",
    "Phase",
    "Purpose",
    "Region",
    "SliceKind",
    "TileRow",
    "TrainingPass",
    "phase_of",
]

#: Layers of debug contexts that the engine has: library calls, and what they are made of. All
#: others are those of a front end, which names its own, such as onnx.
ENGINE_LAYERS = ("library", "poplar")

#: The phase of programs that only contain other programs.
CONTROL = "control"


@dataclass(frozen=True)
class Phase:
    """The activity of a tile at a time.

    Attributes
    ----------
    name
        Stable; part of metric names.
    label
        Display name.
    summary_row
        The row of Poplar's summary that includes its cycles.
    meaning
        Ends the sentence "Time in which …".
    is_exchange
        Whether tiles send data to other tiles.
    """

    name: str
    label: str
    summary_row: str
    meaning: str
    is_exchange: bool = False


_PHASES = (
    Phase("compute", "Compute", "compute", "vertices compute"),
    Phase(
        "exchange",
        "Exchange",
        "IPU exchange",
        "tiles exchange data within their IPU",
        is_exchange=True,
    ),
    Phase(
        "global_exchange",
        "Exchange between IPUs",
        "global exchange",
        "IPUs exchange data",
        is_exchange=True,
    ),
    Phase("sync", "Sync", "sync", "tiles wait for each other to begin an exchange"),
    Phase("stream_copy", "Stream copy", "host exchange", "data moves from and to the host"),
    Phase("other", "Other", "sync", "none of these happens, or a step of another kind runs"),
)
#: Phases by name, in display order.
PHASES: dict[str, Phase] = {phase.name: phase for phase in _PHASES}
PHASE_LABELS: dict[str, str] = {phase.name: phase.label for phase in _PHASES}


@dataclass(frozen=True)
class SliceKind:
    """The display of a step, or of a program with steps, in a trace.

    ``number`` is part of the web app's binary responses: append new kinds at the end. ``letter``
    supplements colour.
    """

    number: int
    name: str
    label: str
    letter: str


_SLICES = (
    ("compute", "Compute", "C"),
    ("exchange", "Internal exchange", "E"),
    ("global_exchange", "Global exchange", "G"),
    ("sync", "Sync", "S"),
    ("external_sync", "External sync", "X"),
    ("stream_begin", "Stream copy begin", "B"),
    ("stream_copy", "Stream copy", "T"),
    ("stream_end", "Stream copy end", "N"),
    ("other", "Other", "O"),
    ("group", "Group of steps", "–"),
    ("run", "Run", "R"),
)
#: Kinds of slices by name, in order of their numbers.
SLICE_KINDS: dict[str, SliceKind] = {
    name: SliceKind(number, name, label, letter)
    for number, (name, label, letter) in enumerate(_SLICES)
}


@dataclass(frozen=True)
class Kind:
    """A kind of program: ``program.kind``, and ``step.kind`` for those that are steps.

    ``phase`` is ``CONTROL`` for programs that only contain other programs; ``slice`` is the kind of
    slice in a trace.
    """

    name: str
    phase: str
    slice: str

    @property
    def has_exchange_code(self) -> bool:
        """Whether its code is exchange code."""
        return self.name in ("DoExchange", "GlobalExchange", "StreamCopyMid")

    @property
    def is_step(self) -> bool:
        """Whether it is a leaf that takes time, not a container."""
        return self.phase != CONTROL


#: Kinds of programs by name: containers first, then steps.
PROGRAM_KINDS: dict[str, Kind] = {
    name: Kind(name, phase, look)
    for name, phase, look in (
        ("Sequence", CONTROL, "group"),
        ("Block", CONTROL, "group"),
        ("Repeat", CONTROL, "group"),
        ("RepeatWhile", CONTROL, "group"),
        ("If", CONTROL, "group"),
        ("Switch", CONTROL, "group"),
        ("Call", CONTROL, "group"),
        ("Overlap", CONTROL, "group"),
        ("PrintTensor", CONTROL, "group"),
        ("ErrorProgram", CONTROL, "group"),
        ("OnTileExecute", "compute", "compute"),
        ("DoExchange", "exchange", "exchange"),
        ("GlobalExchange", "global_exchange", "global_exchange"),
        ("Sync", "sync", "sync"),
        ("StreamCopyBegin", "stream_copy", "stream_begin"),
        ("StreamCopyMid", "stream_copy", "stream_copy"),
        ("StreamCopyEnd", "stream_copy", "stream_end"),
        ("WriteUndef", "other", "other"),
    )
}


def phase_of(kind: str) -> str:
    """Return the phase of a kind of program: one of ``PHASES``, or ``CONTROL``.

    Raises
    ------
    KeyError
        If the kind is unknown.
    """
    return PROGRAM_KINDS[kind].phase


@dataclass(frozen=True)
class Category:
    """A category of memory.

    Attributes
    ----------
    name
        Name in ``memory_category.name``.
    label
        Display name.
    summary_row
        The row of Poplar's summary that includes it.
    is_overlapped
        Whether its parts may share addresses at different times.
    is_exchange_code
        Whether it is exchange code.
    is_variable
        Whether it is memory of named variables, not code or state; ``variable.category`` is one of
        these.
    """

    name: str
    label: str
    summary_row: str
    is_overlapped: bool = False
    is_exchange_code: bool = False
    is_variable: bool = False


#: Categories of memory, in the order of PopVision and of the memory arrays.
MEMORY_CATEGORIES: tuple[Category, ...] = (
    Category("variable", "Variables", "Variables", is_overlapped=True, is_variable=True),
    Category("constant", "Constants", "Constants", is_variable=True),
    Category("message", "Exchange messages", "Variables", is_overlapped=True, is_variable=True),
    Category(
        "hostExchangePacketHeader", "Host exchange packet headers", "Host Exchange Packet Headers"
    ),
    Category(
        "globalExchangePacketHeader",
        "Global exchange packet headers",
        "Global Exchange Packet Headers",
    ),
    Category("stack", "Stack", "Stack"),
    Category("vertexInstanceState", "Vertex instance state", "Vertex Instances"),
    Category("copyDescriptor", "Copy descriptors", "Copy Descriptors"),
    Category("vectorListDescriptor", "Vector list descriptors", "VectorList Descriptors"),
    Category("vertexFieldData", "Vertex field data", "Vertex Field Data"),
    Category("controlTable", "Control tables", "Control Table"),
    Category("controlId", "Control identifiers", "Control Table"),
    Category("controlCode", "Control code", "Control Code"),
    Category("vertexCode", "Vertex code", "Vertex Code"),
    Category(
        "internalExchangeCode",
        "Internal exchange code",
        "Internal Exchange Code",
        is_exchange_code=True,
    ),
    Category("hostExchangeCode", "Host exchange code", "Host Exchange Code", is_exchange_code=True),
    Category(
        "globalExchangeCode", "Global exchange code", "Global Exchange Code", is_exchange_code=True
    ),
    Category("instrumentationResults", "Instrumentation results", "Instrumentation Results"),
)
#: Categories by name.
MEMORY_CATEGORY: dict[str, Category] = {item.name: item for item in MEMORY_CATEGORIES}


@dataclass(frozen=True)
class Region:
    """A region of a tile's memory, by address; ``array`` holds its bytes by category and tile."""

    key: str
    label: str
    array: str


REGIONS: tuple[Region, ...] = (
    Region("non_interleaved", "Non-interleaved", "memory.non_interleaved"),
    Region("interleaved", "Interleaved", "memory.interleaved"),
    Region("overflowed", "Overflowed", "memory.overflowed"),
)


@dataclass(frozen=True)
class TileRow:
    """A row of the array ``memory.tile``."""

    number: int
    meaning: str


#: Rows of the array ``memory.tile`` by name.
MEMORY_ROWS: dict[str, TileRow] = {
    name: TileRow(number, meaning)
    for number, (name, meaning) in enumerate(
        (
            ("including_gaps", "total including gaps, which is one past the highest address"),
            ("excluding_gaps", "total excluding gaps"),
            ("always_live", "always live"),
            ("not_always_live_peak", "most that is live but not always at one step"),
            ("code_end", "one past the highest address of code"),
        )
    )
}

#: Which tiles a step syncs with: code in ``cost.sync_zone``, by name.
SYNC_ZONES: dict[str, int] = {"none": 0, "internal": 1, "external": 2}

#: Kinds of records of a host's trace.
HOST_RECORDS: dict[str, int] = {"begin": 0, "end": 1, "mark": 2}

#: Reasons why no faster plan was chosen: meaning by code.
BOUNDS: dict[str, str] = {
    "cycles": "cycles: no other split is predicted to take fewer, and this one fits",
    "idle_tiles": "cycles: more than half of the tiles stay idle, as more of them would take longer"
    " to bring operands and partial sums to than they save",
    "temporary_memory": "memory: a faster split needs more temporary memory than is available",
    "interleaved_memory": "memory: a faster split needs more interleaved memory than a tile has",
    "least_memory": "memory: no split keeps to what is available, this one needs the least",
}


@dataclass(frozen=True)
class TrainingPass:
    """A part of a training step: ``debug_context.training_pass``.

    Attributes
    ----------
    name
        Code in rows.
    label
        Display name.
    singular, plural
        What its operations are called in a sentence.
    key
        Part of metric names and of class names in pages.
    """

    name: str
    label: str
    singular: str
    plural: str
    key: str


#: Passes by name, in the order in which they run.
TRAINING_PASSES: dict[str, TrainingPass] = {
    item.name: item
    for item in (
        TrainingPass(name, name.capitalize(), singular, f"{singular}s", name.replace(" ", "_"))
        for name, singular in (
            ("forward", "forward operation"),
            ("recomputation", "recomputed operation"),
            ("data gradient", "data gradient"),
            ("weight gradient", "weight gradient"),
            ("weight update", "weight update"),
        )
    )
}


@dataclass(frozen=True)
class Purpose:
    """What memory is needed for.

    Attributes
    ----------
    name
        Code in rows.
    label
        Display name.
    meaning
        What belongs to it, for people.
    key
        Part of metric names and of class names in pages.
    is_stated
        Whether ``variable.purpose`` states it; others follow from categories.
    """

    name: str
    label: str
    meaning: str
    key: str
    is_stated: bool = True


#: Purposes by name, in the order of charts: what is always live first.
PURPOSES: dict[str, Purpose] = {
    item.name: item
    for item in (
        Purpose(name, label, meaning, name.replace(" ", "_"), is_stated)
        for name, label, meaning, is_stated in (
            (
                "code",
                "Code",
                "code, the state of vertices, and all else that is no variable",
                False,
            ),
            ("constant", "Constants", "constants, and weights that do not change", False),
            (
                "weight",
                "Weights",
                "weights that change, and what else the model keeps, such as running statistics",
                True,
            ),
            ("optimiser state", "Optimiser state", "what the optimiser keeps of weights", True),
            (
                "gradient",
                "Gradients",
                "results of the backward pass, and sums of gradients over micro-batches",
                True,
            ),
            ("activation", "Activations", "inputs, and results of the forward pass", True),
            (
                "stash",
                "Stashes",
                "what stages of a pipeline keep of several micro-batches for later stages",
                True,
            ),
            (
                "working",
                "Working memory",
                "what lives within an operation: partial results, rearranged operands, messages",
                False,
            ),
        )
    )
}
