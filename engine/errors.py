"""What can go wrong between a model and its report.

EngineError                 engine: base of all
├── BadOption               bad_option: malformed POPLAR_ENGINE_OPTIONS, unknown key, bad value
├── BadMachine              bad_machine: unknown target, absurd or missing parameter
├── BadModel                bad_model: not ONNX, truncated, shapes that do not agree
│   └── UnsupportedOperators  unsupported_operators: lists all of them with node names
├── BadInput                bad_input: missing file, wrong shape or type of an input
├── BadGraph                bad_graph: a graph that breaks the rules of the machine
├── ModelNotAvailable       model_not_available: cannot be had, or is not the one that was pinned
└── RunFailed               run_failed: the program could not be run to its end
    ├── ProgramError        program_error: the program itself said so
    └── OutOfTileMemory     out_of_tile_memory: does not fit; says which tiles and variables
"""

from __future__ import annotations

__all__ = [
    "BadGraph",
    "BadInput",
    "BadMachine",
    "BadModel",
    "BadOption",
    "EngineError",
    "ModelNotAvailable",
    "OutOfTileMemory",
    "ProgramError",
    "RunFailed",
    "UnsupportedOperators",
]


class EngineError(Exception):
    """Base of every error of the engine; ``code`` is stable, the text is for people.

    ``exit_code`` is what the command line returns for it.
    """

    code = "engine"
    exit_code = 2


class BadOption(EngineError):
    """An option is malformed, unknown, or has a value that is not allowed."""

    code = "bad_option"


class BadMachine(EngineError):
    """The target is unknown or its description cannot be."""

    code = "bad_machine"


class BadModel(EngineError):
    """The model cannot be read or does not agree with itself."""

    code = "bad_model"


class UnsupportedOperators(BadModel):
    """The model needs operators that are not there."""

    code = "unsupported_operators"


class BadInput(EngineError):
    """An input of the model is missing or has another shape or type."""

    code = "bad_input"


class BadGraph(EngineError):
    """The graph breaks a rule of the machine."""

    code = "bad_graph"


class ModelNotAvailable(EngineError):
    """A model of the catalogue cannot be had, or is not the one that was pinned."""

    code = "model_not_available"


class RunFailed(EngineError):
    """The program could not be run to its end."""

    code = "run_failed"
    exit_code = 4


class ProgramError(RunFailed):
    """The program came to an ErrorProgram."""

    code = "program_error"


class OutOfTileMemory(RunFailed):
    """The program does not fit into the tiles' memory."""

    code = "out_of_tile_memory"
