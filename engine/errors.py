"""Errors of the engine.

EngineError                 engine: base of all
├── BadOption               bad_option: malformed POPLAR_ENGINE_OPTIONS, unknown key, bad value
├── BadMachine              bad_machine: unknown machine, implausible or missing figure
├── BadModel                bad_model: not ONNX, truncated, inconsistent shapes
│   └── UnsupportedOperators  unsupported_operators: all of them, with node names
├── BadInput                bad_input: missing file, wrong shape or type of an input
├── BadGraph                bad_graph: a graph that breaks the rules of the machine
├── BadExecutable           bad_executable: damaged bytes, another engine, a missing codelet
├── EngineClosed            engine_closed: a closed engine was used
├── EngineBusy              engine_busy: a running engine was told to run or close
├── ModelNotAvailable       model_not_available: no download, or not the pinned file
└── RunFailed               run_failed: the program did not complete
    ├── ProgramError        program_error: an ErrorProgram ran
    ├── CallbackFailed      callback_failed: a stream callback raised
    ├── KernelFailed        kernel_failed: the function of a codelet raised
    └── OutOfTileMemory     out_of_tile_memory: does not fit; names tiles and variables
"""

from __future__ import annotations

__all__ = [
    "BadExecutable",
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
    """Return the type and message of an exception on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class EngineError(Exception):
    """Base of every error of the engine; ``code`` is stable, the text is for people.

    ``exit_code`` is the exit code of the command line.
    """

    code = "engine"
    exit_code = 2


class BadOption(EngineError):
    """An option is malformed, unknown, or has a value that is not allowed."""

    code = "bad_option"


class BadMachine(EngineError):
    """The machine is unknown or its description is invalid."""

    code = "bad_machine"


class BadModel(EngineError):
    """The model is unreadable or inconsistent."""

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


class BadExecutable(EngineError):
    """An executable cannot be written as bytes, or bytes are not an executable."""

    code = "bad_executable"


class EngineClosed(EngineError):
    """A closed engine was told to run, read or write."""

    code = "engine_closed"


class EngineBusy(EngineError):
    """A function called by a running engine told it to run or close."""

    code = "engine_busy"


class ModelNotAvailable(EngineError):
    """A model of the catalogue is not available, or not the pinned file."""

    code = "model_not_available"


class RunFailed(EngineError):
    """The program did not complete."""

    code = "run_failed"
    exit_code = 4


class ProgramError(RunFailed):
    """The program reached an ErrorProgram."""

    code = "program_error"


class CallbackFailed(RunFailed):
    """A user's callback raised; its exception is the cause of this error."""

    code = "callback_failed"


class KernelFailed(RunFailed):
    """The function of a codelet raised; its exception is the cause of this error."""

    code = "kernel_failed"


class OutOfTileMemory(RunFailed):
    """The program does not fit into the tiles' memory."""

    code = "out_of_tile_memory"
