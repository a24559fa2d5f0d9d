"""Export of a module by PyTorch, functionalised only."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.torch.containers import register_containers
from tilescope.engine.frontend.torch.functional import functional
from tilescope.engine.frontend.torch.markers import define_markers
from tilescope.engine.frontend.torch.table import is_whole

__all__ = ["captured", "exported", "torch_module"]

#: The variable by which PyTorch never runs code of a file, whatever its callers say.
_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def torch_module() -> Any:
    """Return PyTorch.

    Raises
    ------
    BadInput
        When it is not installed.
    """
    try:
        import torch
    except ImportError:
        raise BadInput(
            "PyTorch is not installed: install tilescope[torch], or torch 2.13 or newer"
        ) from None
    return torch


def captured(source: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a module, an exported program, or the file of one, as a functional program.

    Parameters
    ----------
    source
        A ``torch.nn.Module``, a ``torch.export.ExportedProgram``, or the path of a ``.pt2`` file.
    args, kwargs
        What a module is called with; an exported program has these already.

    Returns
    -------
    torch.export.ExportedProgram
        Without operators that write in place, and without those that neither the table has nor
        PyTorch takes apart.

    Raises
    ------
    BadInput
        When PyTorch is missing, or the file does not exist.
    BadModel
        When the module cannot be exported.
    """
    torch = torch_module()
    _complete(torch)
    define_markers()
    register_containers()
    with _quietly():
        if isinstance(source, str | Path):
            program = _read(torch, Path(source))
        elif isinstance(source, torch.export.ExportedProgram):
            program = source
        elif isinstance(source, torch.nn.Module):
            program = exported(source, args, kwargs)
        else:
            raise BadInput(
                f"Expected a torch.nn.Module, an ExportedProgram or the path of a .pt2 file, got"
                f" {type(source).__name__}"
            )
        rewritten = functional(torch, program)
        if rewritten is not None:
            return rewritten
        whole = _with_detached(torch, program)
        traced = _with_annotations(torch, lambda: whole.run_decompositions({}))
        return _with_annotations(torch, lambda: _taken_apart(torch, traced))


@cache
def _complete(torch: Any) -> None:
    """Tell PyTorch the shapes of results that its own tables of shapes lack."""

    def losses(log_probs: Any, targets: Any, *_: Any) -> Any:
        n_steps, n_batch, _ = log_probs.shape
        longest = targets.shape[-1]
        alphas = log_probs.new_empty((n_batch, n_steps, 2 * longest + 1))
        return log_probs.new_empty((n_batch,)), alphas

    torch.library.register_fake("aten::_ctc_loss", losses)
    torch.library.register_fake("aten::_ctc_loss.Tensor", losses)


def exported(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the program of a module, in the form for training or inference that it is in.

    Parameters
    ----------
    module
        A ``torch.nn.Module``; it stays as it is.
    args, kwargs
        What it is called with.

    Raises
    ------
    BadModel
        When a parameter is on another device, or PyTorch cannot export the module.
    """
    torch = torch_module()
    _check_devices(module)
    before = {name: parameter.grad for name, parameter in module.named_parameters()}
    constants = _plain_tensors(torch, module)
    try:
        with _adapted(torch):
            program = _with_annotations(
                torch, lambda: torch.export.export(module, tuple(args), dict(kwargs), strict=False)
            )
    except Exception as error:  # PyTorch's errors have no common base
        raise BadModel(_sentence(module, error)) from error
    finally:
        for name, parameter in module.named_parameters():
            parameter.grad = before[name]
    for path, held in program.constants.items():
        tensor, version, value = constants.get(id(held), (held, held._version, held))
        if tensor._version != version:  # the export wrote into it
            program.constants[path] = value
    return program


def _plain_tensors(torch: Any, module: Any) -> dict[int, tuple[Any, int, Any]]:
    """Return the tensors that modules have as plain attributes, with version and value, by `id`."""
    tensors = [
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, torch.Tensor)
    ]
    return {id(tensor): (tensor, tensor._version, tensor.detach().clone()) for tensor in tensors}


@contextmanager
def _adapted(torch: Any) -> Iterator[None]:
    """Let functions take what the engine takes, and PyTorch does not on the host.

    Convolutions of halves take weights in float, and the other way round: in the type of what they
    are applied to. The loss of alignments takes lengths as lists; PyTorch reads elements of targets
    then, which an export does not have.
    """
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    loss = functional.ctc_loss
    convolutions = [
        getattr(functional, f"conv{kind}{n}d") for kind in ("", "_transpose") for n in (1, 2, 3)
    ]
    floats = (torch.float16, torch.float32)

    def of_type_of(x: Any, weight: Any) -> Any:
        is_mixed = isinstance(weight, torch.Tensor) and weight.dtype != x.dtype
        return weight.to(x.dtype) if is_mixed and {x.dtype, weight.dtype} <= {*floats} else weight

    class Adapting(TorchFunctionMode):  # type: ignore[misc]  # of a package without types
        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = list(args), dict(kwargs or {})
            if func in convolutions:
                x = args[0] if args else kwargs["input"]
                args[1:3] = [of_type_of(x, item) for item in args[1:3]]
                kwargs |= {k: of_type_of(x, kwargs[k]) for k in ("weight", "bias") if k in kwargs}
            elif func is loss:
                args[2:4] = [torch.as_tensor(item, dtype=torch.int64) for item in args[2:4]]
                for name in ("input_lengths", "target_lengths"):
                    if name in kwargs:
                        kwargs[name] = torch.as_tensor(kwargs[name], dtype=torch.int64)
            return func(*args, **kwargs)

    with Adapting():
        yield


def _with_annotations(torch: Any, call: Callable[[], Any]) -> Any:
    """Return the result of a call that keeps the annotations of nodes; see `markers.placed`.

    Where PyTorch fails at its own annotations, as it does of the graphs of conditions and loops,
    it keeps none.
    """
    try:
        with torch.fx.traceback.preserve_node_meta():
            return call()
    except AssertionError as error:
        if "custom metadata" not in str(error):
            raise
    return call()


def _check_devices(module: Any) -> None:
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in named:
        if tensor.device.type != "cpu":
            raise BadModel(
                f"{name!r} is on device {str(tensor.device)!r}: call .cpu() on the module, or"
                " .to_empty(device='cpu') where it is on 'meta'"
            )


def _read(torch: Any, path: Path) -> Any:
    if not path.is_file():
        raise BadInput(f"Model file {path} does not exist")
    try:
        with _weights_only():
            return torch.export.load(path)
    except Exception as error:  # likewise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadModel(f"{path} is not a program of torch.export.save: {reason}") from error


def _with_detached(torch: Any, program: Any) -> Any:
    """Return a program whose parts without gradients detach their results.

    Those parts are graphs of their own, which decompositions put back into the program.
    """
    kind = torch.ops.higher_order.wrap_with_set_grad_enabled

    def parts(module: Any) -> list[Any]:
        return [
            graph.owning_module.get_submodule(node.args[1].target)
            for graph in _graphs(torch, module)
            for node in graph.nodes
            if node.target is kind and not node.args[0]
        ]

    if not parts(program.graph_module):
        return program
    module = copy.deepcopy(program.graph_module)
    for part in parts(module):
        (output,) = (node for node in part.graph.nodes if node.op == "output")
        with part.graph.inserting_before(output):
            detached = [
                part.graph.call_function(torch.ops.aten.detach.default, (value,))
                for value in output.args[0]
            ]
        for new, old in zip(detached, output.args[0], strict=True):
            new.meta.update(old.meta)
        output.args = (tuple(detached),)
        part.recompile()
    return program._update(module, program.graph_signature)


def _taken_apart(torch: Any, program: Any) -> Any:
    """Return a program in which PyTorch has taken apart what the table does not have."""
    decompositions: Mapping[Any, Any] | None = None
    for _ in range(4):  # what operators are taken apart into may be taken apart, too
        missing = {
            node.target
            for graph in _graphs(torch, program.graph_module)
            for node in graph.nodes
            if isinstance(node.target, torch._ops.OpOverload) and not is_whole(str(node.target))
        }
        if decompositions is None and missing:
            decompositions = torch.export.default_decompositions()
        known = (
            {target: decompositions[target] for target in missing if target in decompositions}
            if decompositions
            else {}
        )
        if not known:
            return program
        program = program.run_decompositions(known)
    return program


def _graphs(torch: Any, module: Any) -> Iterator[Any]:
    """Yield the graphs of a program: its own, and those of its conditions and loops."""
    for inner in module.modules():
        if isinstance(inner, torch.fx.GraphModule):
            yield inner.graph


def _sentence(module: Any, error: Exception) -> str:
    """Return what PyTorch says of an export that fails, with the module and line that it is at."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    where = _failing_place(module, error)
    if "data-dependent" in str(error) or "GuardOnDataDependent" in type(error).__name__:
        return (
            f"The module has control flow or shapes that data decide{where}: use torch.where,"
            f" torch.cond or sizes that are known ({reason})"
        )
    return f"PyTorch cannot export the module{where}: {reason}"


def _failing_place(module: Any, error: BaseException | None) -> str:
    """Return the module, file and line in which an exception was raised, outside of PyTorch."""
    import torch

    inside = str(Path(torch.__file__).parent)
    ours = str(Path(__file__).parent)
    paths = {id(part): name for name, part in module.named_modules()}
    traceback, place, path = error.__traceback__ if error else None, "", ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        part = traceback.tb_frame.f_locals.get("self")
        if id(part) in paths:
            path = paths[id(part)]
        if not code.co_filename.startswith((inside, ours, "<")):
            place = f"{Path(code.co_filename).name}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    if not place:
        return ""
    return f" in {f'module {path!r}' if path else 'the module itself'}, {place}"


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let PyTorch unpickle tensors only: a file that asks for more is refused."""
    before = os.environ.get(_FORCED)
    os.environ[_FORCED] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORCED]
        else:
            os.environ[_FORCED] = before


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave out what PyTorch warns of its own parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
