"""Custom machines: TOML files with or without a base, and invalid files."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tilescope.engine import load_machine
from tilescope.engine.errors import BadMachine
from tilescope.engine.machine import FIGURES, describe_machine


def written(folder: Path, text: str | bytes, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_a_file_overrides_only_the_figures_it_names(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'base = "gc200"\nlink_topology = "torus"\n[common]\nclock_hz = 2e9\nsync_cycles = 50\n'
        '[hardware]\nhost_bytes_per_cycle = { value = 20, source = "Our measurement" }\n',
    )
    mine, base = asdict(load_machine(path)), asdict(load_machine("gc200"))
    changed = {key: value for key, value in mine.items() if value != base[key]}
    assert changed == {
        "name": "mine",
        "clock_hz": 2e9,
        "sync_cycles": 50,
        "host_bytes_per_cycle": 20,
        "link_topology": "torus",
    }
    model = load_machine(path, parameter_set="ipu_model")
    assert model.sync_cycles == 50
    assert model.host_bytes_per_cycle == 6.015
    figures = describe_machine(path).by_set["hardware"]
    assert figures["host_bytes_per_cycle"].source == "Our measurement"
    assert figures["clock_hz"].source.endswith("no source given")


def test_a_whole_machine_needs_no_base(tmp_path: Path) -> None:
    values = {
        key: figure.value
        for key, figure in describe_machine("gc2").by_set["hardware"].items()
        if FIGURES[key].is_used
    }
    lines = "".join(f"{key} = {value}\n" for key, value in values.items())
    path = written(tmp_path, f'architecture = "toy"\n[common]\n{lines}')
    machine = load_machine(path, tiles_per_ipu=7)
    assert (machine.architecture, machine.n_tiles, machine.name) == ("toy", 7, "mine")
    without = lines.replace("stack_bytes = 3168\n", "")
    assert without != lines
    path = written(tmp_path, f'architecture = "toy"\n[common]\n{without}')
    with pytest.raises(BadMachine, match="stack_bytes is missing; set it to an integer from 0"):
        load_machine(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('base = "gc300"', ["unknown base 'gc300'", "gc200"]),
        ("base = 200", ["base must be a string"]),
        ("[common]", ["architecture is missing", "or a base"]),
        ('architecture = "a"', ["is missing", "name a base"]),
        ('base = "gc200"\nspeed = 1', ["unknown key 'speed'"]),
        ('base = "gc200"\ncommon = 1', ["common must be a table"]),
        ('base = "gc200"\nlink_topology = "ring"', ["'ring'", "ladder or torus"]),
        ('base = "gc200"\n[common]\nclok_hz = 1e9', ["unknown figure 'clok_hz'", "'clock_hz'"]),
        (
            'base = "gc200"\n[common]\nclock_hz = "fast"',
            ["for clock_hz, got 'fast'", "a number from"],
        ),
        ('base = "gc200"\n[common]\nclock_hz = nan', ["for clock_hz, got nan", "Hz"]),
        ('base = "gc200"\n[common]\nclock_hz = inf', ["for clock_hz, got inf"]),
        ('base = "gc200"\n[common]\nclock_hz = true', ["for clock_hz, got True"]),
        (f'base = "gc200"\n[common]\nstack_bytes = 1{"0" * 400}', ["for stack_bytes, got 1000"]),
        (
            'base = "gc200"\n[common]\ntiles_per_ipu = 0',
            ["for tiles_per_ipu, got 0", "from 1 to 65,536"],
        ),
        ('base = "gc200"\n[common]\ntiles_per_ipu = 1.5', ["1.5", "an integer"]),
        ('base = "gc200"\n[common]\nsync_cycles = -1', ["for sync_cycles, got -1", "from 0"]),
        ('base = "gc200"\n[common]\nsync_cycles = {}', ["{ value = …"]),
        ('base = "gc200"\n[common]\nsync_cycles = {value = 1, note = "x"}', ["{ value = …"]),
        ('base = "gc200"\n[common]\nsync_cycles = {value = 1, source = 2}', ["the source of sync"]),
        ('base = "gc200"\n[common]\nbytes_per_tile = 65536', ["638,976", "65,536", "all three"]),
        ("base = ", ["is not valid TOML"]),
        (b"\xff\xfe", ["UTF-8"]),
        (b"#" * (1 << 20) + b"##", ["larger than 1 MiB"]),
    ],
)
def test_an_invalid_file(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadMachine) as caught:
        load_machine(path)
    output = str(caught.value)
    assert path in output
    assert "\n" not in output
    assert all(word in output for word in words), output


def test_another_clock_changes_no_cycle(tmp_path: Path) -> None:
    path = written(tmp_path, 'base = "gc200"\n[common]\nclock_hz = 2.66e9\n')
    mine, base = load_machine(path, n_ipus=16), load_machine("gc200", n_ipus=16)
    assert mine.clock_hz == 2 * base.clock_hz
    assert replace(mine, name=base.name, clock_hz=base.clock_hz) == base
    assert mine.external_sync_cycles == base.external_sync_cycles


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadMachine, match=r"does not exist; expected the path of a \.toml file"):
        load_machine(str(tmp_path / "none.toml"))
    with pytest.raises(BadMachine, match="is not readable"):
        load_machine(f"{tmp_path}/")
