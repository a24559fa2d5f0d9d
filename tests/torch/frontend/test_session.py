"""Modules from Python and from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.torch.frontend.machine import MACHINE, check_gradients, check_inference, near

import tilescope
from tilescope.engine.errors import BadInput, BadModel, BadOption, UnsupportedOperators
from tilescope.engine.frontend.torch import load_torch, markers
from tilescope.engine.ir import walk
from tilescope.main import main
from tilescope.reports.schema import debug_context
from tilescope.torch_optimiser import optimiser_of


class Net(torch.nn.Module):
    """A layer and its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.fc(x))


_SOURCE = """
import torch

def make_model():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)

def alone():
    return torch.nn.Linear(4, 3)
"""


def test_profile_in_three_lines(tmp_path):
    with tilescope.profile(Net(), torch.ones(2, 4), machine=MACHINE, directory=tmp_path) as report:
        rows = report.rows(debug_context, "layer", "name", "file_name", "line_number")
    places = {name: (file, line) for layer, name, file, line in rows if layer == "torch"}
    forward = Net.forward.__code__.co_firstlineno + 1
    assert places["fc/linear"] == places["relu"] == ("test_session.py", forward)


@pytest.mark.parametrize(
    "train",
    [
        torch.nn.CrossEntropyLoss(),
        (torch.nn.CrossEntropyLoss(), torch.optim.Adam([torch.zeros(1)], lr=0.1)),
    ],
    ids=["loss", "both"],
)
def test_profile_of_a_step(train, tmp_path):
    args = (torch.ones(2, 4), torch.tensor([0, 2]))
    with tilescope.profile(
        Net(), *args, machine=MACHINE, train=train, directory=tmp_path
    ) as report:
        assert ("weight update",) in report.rows(debug_context, "training_pass")


def test_profile_without_a_loss(tmp_path):
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    with pytest.raises(BadModel, match=r"'output' of shape \(2, 3\) last, which is not a loss"):
        tilescope.profile(
            Net(), torch.ones(2, 4), machine=MACHINE, train=optimiser, directory=tmp_path
        )


def test_unknown_optimiser():
    with pytest.raises(BadOption, match="Optimizer Rprop is not supported: expected one of"):
        optimiser_of(torch.optim.Rprop([torch.zeros(1)]))


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax"]
)
def test_optimisers(name):
    module = Net()
    optimiser = getattr(torch.optim, name)(module.parameters(), lr=0.05, weight_decay=0.01)
    from tests.torch.frontend.machine import ran

    from tilescope.engine.training import Loss, for_training

    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    program = load_torch(module, (x,), is_training=True)
    loss = Loss(kind="identity", output="output", reduction="sum")
    _, held = ran(for_training(program.model, loss, optimiser_of(optimiser)), program.take((x,)))
    module(x).sum().backward()
    optimiser.step()
    near(held["fc.weight"], module.fc.weight.detach().numpy(), 1e-5)


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command and return its exit code, and what it writes."""
    (tmp_path / "module.py").write_text(_SOURCE)

    def call(*arguments):
        code = main([str(a) for a in arguments])
        written = capsys.readouterr()
        return code, written.out + written.err

    return call


def test_run_of_a_function(run, tmp_path):
    out = tmp_path / "out.npz"
    code, text = run(
        "run",
        f"{tmp_path}/module.py:make_model",
        "--tiles",
        8,
        "--no-report",
        "--outputs",
        out,
        "--json",
    )
    assert code == 0, text
    assert json.loads(text)["outputs"][0]["name"] == "output"
    torch.manual_seed(0)
    near(np.load(out)["output"], torch.nn.Linear(4, 3)(torch.ones(2, 4)).detach().numpy(), 1e-6)


def test_run_of_a_module_alone(run, tmp_path):
    place = f"{tmp_path}/module.py:alone"
    code, text = run("run", place, "--tiles", 8, "--no-report", "--shape", "input=2,4")
    assert code == 0, text
    code, text = run("run", place, "--tiles", 8, "--no-report")
    assert code == 2
    assert "returns a module without arguments" in text.replace("\n", " ")


def test_run_of_an_open_program(run, tmp_path):
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Net(), (torch.ones(2, 4),), dynamic_shapes={"x": {0: batch}})
    torch.export.save(program, tmp_path / "net.pt2")
    options = ("--tiles", 8, "--no-report")
    code, text = run("run", tmp_path / "net.pt2", *options)
    assert code == 2
    assert "leaves dimension 0 of argument 'x' open" in text.replace("\n", " ")
    (symbol,) = program.range_constraints
    code, text = run("run", tmp_path / "net.pt2", *options, "--dim", f"{symbol}=6")
    assert code == 0, text
    assert "(6, 3)" in text


def test_train_of_a_function(run, tmp_path):
    data, out = tmp_path / "data.npz", tmp_path / "trained.pt"
    np.savez(data, input=np.ones((4, 4), np.float32), labels=np.zeros((4, 3), np.float32))
    code, text = run(
        "train",
        f"{tmp_path}/module.py:make_model",
        "--tiles",
        8,
        "--data",
        data,
        "--loss",
        "mse",
        "--optimizer",
        "sgd:lr=0.1",
        "--output",
        out,
    )
    assert code == 0, text
    assert set(torch.load(out)) == {"weight", "bias"}


def test_dimension_by_name():
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Net(), (torch.ones(2, 4),), dynamic_shapes={"x": {0: batch}})
    loaded = load_torch(program, dims={"batch": 5})
    assert loaded.model.inputs[0].shape == (5, 4)
    with pytest.raises(BadInput, match="Dimension 'batch' has 2 to 64 elements, and 99 was given"):
        load_torch(program, dims={"batch": 99})
    with pytest.raises(BadInput, match="no dimension 'rows' that is open"):
        load_torch(program, dims={"rows": 5})


class Marked(torch.nn.Module):
    """A module with marks."""

    def __init__(self, ipu: int = 0) -> None:
        super().__init__()
        self.ipu = ipu
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        with markers.placed(ipu=0, stage=0):
            x = markers.available_memory(self.first(x), 0.2)
        x = markers.recomputation_checkpoint(markers.nop(x))
        x = markers.begin_block(x, ipu=self.ipu, stage=1)
        x = markers.serialized_matmul(x, self.second.weight.t()) + self.second.bias
        return markers.identity_loss(x, "mean")


def test_marks_reach_operations():
    check_gradients(Marked(), (torch.linspace(0, 1, 8).reshape(2, 4),))
    program = load_torch(Marked(ipu=1), (torch.ones(2, 4),))
    assert [(m.output, m.reduction) for m in program.losses] == [("output", "mean")]
    operations = {op.name: op for op in walk(program.model.operations)}
    assert operations["first/linear"].placement.stated() == {"ipu": 0, "stage": 0}
    assert operations["first/linear"].hints.available_memory_proportion == 0.2
    assert operations["serialized_matmul"].placement.ipu == 1
    assert operations["nop"].hints.is_recomputed is False


class Branches(torch.nn.Module):
    """A condition, a loop and a scan."""

    def forward(self, x):
        x = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        count, total = torch.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a + i * x), (torch.tensor(0), x.clone())
        )
        return x, count, total


@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow(sign):
    check_inference(Branches(), (sign * torch.linspace(0.1, 1, 6).reshape(2, 3),))


class Scanned(torch.nn.Module):
    """A scan over rows."""

    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        last, rows = scan(lambda c, row: (c + row, c * row), torch.zeros(3), x, dim=0)
        return last, rows


def test_scan():
    check_inference(Scanned(), (torch.linspace(0.1, 1, 12).reshape(4, 3),))


class WithoutGradients(torch.nn.Module):
    """A part that has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.linspace(0.5, 1, 3))

    def forward(self, x):
        with torch.no_grad():
            y = self.w * x
        return ((self.w + x) * y).sum()


def test_parts_without_gradients():
    check_gradients(WithoutGradients(), (torch.linspace(1, 2, 3),))


class Deciding(torch.nn.Module):
    """Data decide in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()

    def forward(self, x):
        y = self.inner(x)
        if y.sum() > 0:
            return y
        return -y


class Masked(torch.nn.Module):
    """Data decide a shape."""

    def forward(self, x):
        return x[x > 0] * 2


class Strided(torch.nn.Module):
    """An operator that is refused."""

    def forward(self, x):
        return torch.as_strided(x, (2, 2), (1, 2))


class Inverted(torch.nn.Module):
    """An operator outside of the table."""

    def forward(self, x):
        return torch.linalg.eigh(x[:, :2])[0]


def test_control_flow_by_data():
    with pytest.raises(
        BadModel, match=r"that data decide in the module itself, test_session.py, line \d+"
    ):
        load_torch(Deciding(), (torch.ones(2, 4),))


def test_shape_by_data():
    with pytest.raises(BadModel, match=r"mask that is computed.*test_session.py, line \d+"):
        load_torch(Masked(), (torch.ones(2, 4),))


def test_operator_that_is_refused():
    with pytest.raises(
        UnsupportedOperators, match=r"aten.as_strided.default addresses memory.*line \d+"
    ):
        load_torch(Strided(), (torch.ones(2, 4),))


def test_operator_outside_the_table():
    with pytest.raises(
        UnsupportedOperators, match=r"eigh.* is not supported.*test_session.py, line \d+"
    ):
        load_torch(Inverted(), (torch.ones(2, 4),))


def test_parameters_on_another_device():
    with pytest.raises(BadModel, match=r"'weight' is on device 'meta': call \.cpu\(\)"):
        load_torch(torch.nn.Linear(4, 3, device="meta"), (torch.ones(2, 4),))


def test_type_that_the_machine_lacks():
    with pytest.raises(BadModel, match=r"is bfloat16, which is not supported: call .half\(\)"):
        load_torch(Net().bfloat16(), (torch.ones(2, 4).bfloat16(),))


def test_half():
    check_inference(Net().half(), (torch.ones(2, 4).half(),), tolerance=2e-3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.ones(3, 4),), r"Argument 'x' is float32 of shape \(3, 4\): expected float32"),
        ((torch.ones(2, 4).double(),), "Argument 'x' is float64 of shape"),
        ((torch.ones(2, 4), 1), "another structure .* it takes x"),
    ],
)
def test_other_arguments(args, message):
    program = load_torch(Net(), (torch.ones(2, 4),))
    with pytest.raises(BadInput, match=message):
        program.take(args)


def test_shared_parameters():
    module = Marked()
    module.second = torch.nn.Linear(4, 4)
    module.second.weight = module.first.weight
    program = check_gradients(module, (torch.linspace(0, 1, 8).reshape(2, 4),))
    assert program.parameters["second.weight"] == program.parameters["first.weight"]


def test_patterns_of_parameters():
    module, args = Marked(), (torch.ones(2, 4),)
    program = load_torch(module, args, is_training=True, trained=["second.*"], frozen=["*.bias"])
    assert [p.name for p in program.model.parameters if p.is_trainable] == ["second.weight"]
    with pytest.raises(BadInput, match="matches 'third"):
        load_torch(module, args, is_training=True, trained=["third.*"])


def test_pickled_code_is_not_run(tmp_path):
    (tmp_path / "bad.pt2").write_bytes(b"not a zip file")
    with pytest.raises(BadModel, match=r"is not a program of torch\.export\.save"):
        load_torch(tmp_path / "bad.pt2")
