"""Files of an executor's program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poptorch.executor.compiled import CompiledExecutor
from poptorch.executor.saved_model import SavedModel, file_of, read_model, write_model
from poptorch.executor.wrapped_model import unwrapped
from poptorch.version import __version__

__all__ = ["SavedExecutor"]


class SavedExecutor(CompiledExecutor):
    """An executor that writes its program into a file, or takes it from one."""

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write the program into a file.

        Parameters
        ----------
        filename
            The file, or a folder for ``model.poptorch``.
        export_model
            Whether the file has the module and its optimizer, so that `poptorch.load` can read it.
        save_rng_state
            Whether it has the state of the random numbers.

        Raises
        ------
        Error
            When nothing is compiled, or it cannot be written.
        """
        program, file = self._compiled(), file_of(filename)
        saved = SavedModel(__version__, self._arguments, self._options)
        if export_model:
            self.copyWeightsToHostIfNeeded()
            saved.is_training, saved.model = self._training, self._user_model
            saved.optimizer = self._optimizer
            saved.optimizer_state = (
                None if self._optimizer is None else self._optimizer.state_dict()
            )
        if save_rng_state:
            saved.rng_state = self.rng_state
        program.save(file)
        with unwrapped(self._user_model):
            write_model(file, saved)

    def compileAndExport(
        self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any
    ) -> None:
        """Compile the module for arguments, and write the program into a file; see `save`.

        Raises
        ------
        Error
            When it cannot be compiled or written.
        """
        self.compile(*args, **kwargs)
        self.save(filename, export_model)

    def loadExecutable(self, filename: str) -> None:
        """Take the program of a file in place of compiling one.

        Raises
        ------
        Error
            When the file has another model's.
        """
        self._compile(read_model(filename).arguments, Path(filename))
