"""Operators that write in place: what they do, and which need no second trace by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.torch.frontend.machine import Function, check_gradients, check_inference, ran
from tests.torch.frontend.modules import MODULES
from torch.nn import functional

from tilescope.engine.frontend.torch import load_torch

_X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every table with which PyTorch traces an exported program again."""
    tables: list[object] = []
    trace = torch.export.ExportedProgram.run_decompositions

    def noted(program, table=None, **options):
        tables.append(table)
        return trace(program, table, **options)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", noted)
    return tables


def _chain(x):
    y = x * 2
    y.relu_()
    y += 1
    z = y.mul_(x)
    return z, y - 1


def _view_read_before(x):
    y = x * 2
    rows = y.view(-1) + 1
    y.neg_()
    return y, rows


def _view_afterwards(x):
    y = x * 2
    y.clamp_(-1, 1)
    rows = y.view(-1)
    return rows[1:] * 2, y


def _parts(x):
    first, second = (x * 2).split(2, 1)
    return first.exp() + second.sqrt_().abs_()


def _masked(x):
    y = x.clone()
    y.masked_fill_(x < 0, 5.0)
    y.pow_(2)
    return y.index_add_(0, torch.tensor([2, 0]), torch.ones(2, 4))


def _whole_numbers(x):
    return (x > 0).long().add_(3)


@pytest.mark.parametrize(
    "function", [_chain, _view_read_before, _view_afterwards, _masked, _whole_numbers]
)
def test_writes_without_a_second_trace(function: Callable[..., Any], traces: list[object]) -> None:
    check_inference(Function(function), (_X,))
    assert not traces


def _view_written(x):
    y = x * 2
    y.view(-1).add_(1)
    return y


def _row_written(x):
    y = x * 2
    y[1].zero_()
    return y


def _written_below_a_view(x):
    y = x * 2
    rows = y.view(-1)
    y.add_(1)
    return rows * 2


def _perhaps_the_same(x):
    y = x * 2
    z = y.reshape(3, 4)
    z.add_(1)
    return y + z


def _truth_in_numbers(x):
    y = x.clone()
    return y.gt_(0) / 2


def _halves(x):
    y = x.half()
    return y.add_(x) * 0.5


def _argument(x):
    x.add_(1)
    return x * 2


@pytest.mark.parametrize(
    "function",
    [
        _view_written,
        _row_written,
        _written_below_a_view,
        _perhaps_the_same,
        _truth_in_numbers,
        _halves,
        _parts,
    ],
)
def test_shared_memory_and_other_types(function: Callable[..., Any]) -> None:
    check_inference(Function(function), (_X.abs(),), tolerance=1e-3)


def test_an_argument_that_is_written_stays_as_it_is() -> None:
    program = load_torch(Function(_argument), (_X.clone(),))
    assert [notice.code for notice in program.model.notices] == ["argument_written"]


class _Forgetful(torch.nn.Module):
    """Writes into a tensor that is not a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = torch.zeros(4)

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_a_constant_that_is_written_is_as_before_in_the_next_run() -> None:
    program = load_torch(_Forgetful(), (_X,))
    outputs, _ = ran(program.model, program.take((_X,)))
    torch.testing.assert_close(program.give(outputs), _X)
    assert [notice.code for notice in program.model.notices] == ["constant_written"]


class _Counting(torch.nn.Module):
    """Counts its calls, and keeps a mean in two names of one tensor."""

    def __init__(self, *, is_tied: bool) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.ones(4))
        self.register_buffer("same", self.mean if is_tied else torch.ones(4))
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.count += 1
        self.mean.mul_(0.5).add_(x.mean(0).detach())
        return (x * self.weight + self.mean * self.same).sum() * self.count


@pytest.mark.parametrize("is_tied", [False, True])
def test_buffers_are_updated(is_tied: bool, traces: list[object]) -> None:
    check_gradients(_Counting(is_tied=is_tied), (_X,))
    assert not traces


def test_running_statistics_without_a_second_trace(traces: list[object]) -> None:
    make, args, _ = MODULES["bottlenecks"]
    network = make()

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x):
            return functional.cross_entropy(self.network(x), torch.tensor([0, 1, 2, 3]))

    program = load_torch(Loss(), args, is_training=True)
    assert not traces
    written = {update.held.name for update in program.model.updates}
    assert written == {f"network.{name}" for name, _ in network.named_buffers()}


def test_an_exported_program_stays_as_it_is() -> None:
    exported = torch.export.export(Function(_chain), (_X,), strict=False)
    before = str(exported.graph)
    load_torch(exported)
    assert str(exported.graph) == before


def test_an_argument_may_have_the_name_of_a_function_of_pythons() -> None:
    """PyTorch's own layers call theirs `input`."""
    program = load_torch(torch.nn.BatchNorm1d(3).train(), (torch.randn(4, 3),))
    assert [value.name for value in program.model.inputs] == ["input"]
    assert program.model.updates
