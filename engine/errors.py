"""What can go wrong between a model and its report.

EngineError                 engine: base of all
├── BadOption               bad_option: malformed POPLAR_ENGINE_OPTIONS, unknown key, bad value
├── BadMachine              bad_machine: unknown target, absurd or missing parameter
├── BadModel                bad_model: not ONNX, truncated, shapes that do not agree
│   └── UnsupportedOperators  unsupported_operators: lists all of them with node names
├── BadInput                bad_input: missing file, wrong shape or type of an input
├── BadGraph                bad_graph: a graph that breaks the rules of the machine
├── EngineClosed            engine_closed: an engine is asked for more after it was closed
├── EngineBusy              engine_busy: an engine is asked to run or close by what it calls
├── ModelNotAvailable       model_not_available: cannot be had, or is not the one that was pinned
└── RunFailed               run_failed: the program could not be run to its end
    ├── ProgramError        program_error: the program itself said so
    ├── CallbackFailed      callback_failed: a function that was connected to a stream raised
    ├── KernelFailed        kernel_failed: the function of a codelet raised
    └── OutOfTileMemory     out_of_tile_memory: does not fit; says which tiles and variables
"""

from __future__ import annotations

__all__ = [
    "BadGraph",
    "BadInput",
    "BadMachine",
    "BadModel",
    "BadOption",
    "CallbackFailed",
    "EngineBusy",
    "EngineClosed",
    "EngineError",
    "KernelFailed",
    "ModelNotAvailable",
    "OutOfTileMemory",
    "ProgramError",
    "RunFailed",
    "UnsupportedOperators",
    "said",
]


def said(error: BaseException) -> str:
    """Return what an exception is and says, on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


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
    """The model has unsupported operators."""

    code = "unsupported_operators"


class BadInput(EngineError):
    """An input of the model is missing or has another shape or type."""

    code = "bad_input"


class BadGraph(EngineError):
    """The graph breaks a rule of the machine."""

    code = "bad_graph"


class EngineClosed(EngineError):
    """An engine was closed, and is asked to run, read or write."""

    code = "engine_closed"


class EngineBusy(EngineError):
    """An engine was asked to run, or to close, by a function that it calls as it runs."""

    code = "engine_busy"


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


class CallbackFailed(RunFailed):
    """A function of the user's raised; what it raised is the cause of this error."""

    code = "callback_failed"


class KernelFailed(RunFailed):
    """The function of a codelet raised; what it raised is the cause of this error."""

    code = "kernel_failed"


class OutOfTileMemory(RunFailed):
    """The program does not fit into the tiles' memory."""

    code = "out_of_tile_memory"
