"""A module of PyTorch as a session takes it: a .pt2 file, or a function that makes one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.model_path import lasting_path
from tilescope.engine.frontend.operator_file import load_operators
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.frontend.torch.program import TorchProgram
from tilescope.engine.ir import Model

__all__ = ["TorchFile", "is_torch_file"]

_FUNCTION = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")


def is_torch_file(text: str) -> bool:
    """Return whether a model is named as one of PyTorch: ``FILE.pt2`` or ``FILE.py:FUNCTION``."""
    return text.endswith(".pt2") or _FUNCTION.fullmatch(text) is not None


class TorchFile:
    """A module of PyTorch (a `tilescope.engine.frontend.source_model.SourceModel`).

    Parameters
    ----------
    text
        The path of a .pt2 file, or ``FILE.py:FUNCTION``. The function takes no arguments and
        returns a module, or a module and a tuple of its arguments; its file is run.

    Raises
    ------
    BadInput
        When it is neither.
    """

    def __init__(self, text: Path | str) -> None:
        if not is_torch_file(str(text)):
            raise BadInput(f"{text} is neither a .pt2 file nor FILE.py:FUNCTION")
        match = _FUNCTION.fullmatch(str(text))
        self.path = Path(match["file"] if match else text)
        self.function = match["function"] if match else ""
        self._loaded: tuple[Setup, TorchProgram] | None = None

    @property
    def name(self) -> str:
        """Name of the function, or of the file without its ending."""
        return self.function or self.path.stem

    @property
    def place(self) -> str:
        """Its path, with the function."""
        return f"{self.path}:{self.function}" if self.function else str(self.path)

    @property
    def outside(self) -> tuple[str, ...]:
        """Nothing: a .pt2 file holds its weights."""
        return ()

    def digest(self, outside: Sequence[str]) -> str:  # noqa: ARG002 # there is nothing else
        """Return the digest of the bytes of a .pt2 file.

        Raises
        ------
        BadModel
            When it cannot be read, or a function makes the module: what it uses is not known.
        """
        if self.function:
            raise BadModel(f"{self.place} has no digest: what its function uses is not known")
        return self._file_digest

    def stored_bytes(self) -> int:
        """Return the size of a .pt2 file; 0 for a function."""
        return 0 if self.function or not self.path.is_file() else self.path.stat().st_size

    def weight_bytes(self, setup: Setup) -> int:
        """Return how many bytes of weights its operations use."""
        return sum(value.array.nbytes for value in self.load(setup).parameters)

    def load(self, setup: Setup) -> Model:
        """Return its operator graph; `Setup.trained` makes parameters trainable."""
        return self.program(setup).model

    def program(self, setup: Setup) -> TorchProgram:
        """Return its operator graph with the structure of its arguments and results.

        Raises
        ------
        BadInput
            When the setup has contents of inputs or a batch, which a module takes from arguments.
        """
        from tilescope.engine.frontend.torch.load import load_torch

        for option, given in (("--set", setup.values), ("--batch", setup.batch)):
            if given:
                raise BadInput(
                    f"{option} does not apply to {self.place}: the arguments of the module say its"
                    " sizes, and --dim those that a .pt2 file leaves open"
                )
        options: dict[str, Any] = {
            "is_training": bool(setup.trained),
            "trained": setup.trained or ("*",),
            "frozen": setup.frozen,
            "dims": setup.dims,
            "name": self.name,
        }
        if self._loaded is not None and self._loaded[0] == setup:
            return self._loaded[1]
        if self.function:
            module, args = self._made
            kwargs = {} if args else self._arguments(setup.shapes)
            program = load_torch(module, args, kwargs, **options)
        else:
            program = load_torch(self.path, **options)
        self._loaded = setup, program
        return program

    def examples(self, setup: Setup) -> dict[str, Any] | None:
        """Return the inputs of the model that a function returns; None without any.

        Parameters
        ----------
        setup
            As for `program`.
        """
        if not self.function or not self._made[1]:
            return None
        return dict(self.program(setup).take(self._made[1]))

    def facts(self, model: Model, digest: str = "") -> dict[str, str]:  # noqa: ARG002 # no opset
        """Return path, digest of the file, and the version of PyTorch."""
        import torch

        return {
            "model_name": self.name,
            "model_path": lasting_path(self.path),
            "model_sha256": digest or self._file_digest,
            "torch": str(torch.__version__),
        }

    def write_trained(self, weights: Mapping[str, Any], path: Path) -> None:
        """Write weights as a state dictionary, which ``torch.load`` reads.

        Parameters
        ----------
        weights
            Arrays by module path.
        path
            The file.
        """
        import numpy as np
        import torch

        torch.save({k: torch.from_numpy(np.array(v)) for k, v in weights.items()}, path)

    @property
    def _file_digest(self) -> str:
        try:
            return sha256(self.path.read_bytes()).hexdigest()
        except OSError as error:
            raise BadModel(f"{self.path} cannot be read: {error.strerror}") from None

    @cached_property
    def _made(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the module and its arguments, from one call of the function."""
        file = load_operators(self.path)
        function = getattr(file, self.function, None)
        if not callable(function):
            raise BadInput(f"{self.path} has no function {self.function!r}")
        result = function()
        if not isinstance(result, tuple):
            return result, ()
        module, args = result if len(result) == 2 else (result[0], result[1:])
        return module, tuple(args) if isinstance(args, tuple | list) else (args,)

    def _arguments(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        """Return arguments of shapes, for a function that returns a module alone."""
        import torch

        if not shapes:
            raise BadInput(
                f"{self.place} returns a module without arguments: return (module, (x, …)), or"
                " state shapes with --shape x=1,3,224,224"
            )
        return {name: torch.zeros(shape) for name, shape in shapes.items()}
