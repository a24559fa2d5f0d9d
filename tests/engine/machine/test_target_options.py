"""POPLAR_TARGET_OPTIONS: keys with an effect, recorded keys, and invalid values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.errors import BadMachine, BadOption
from tilescope.engine.machine import Machine
from tilescope.engine.machine.target_options import TARGET_OPTIONS
from tilescope.engine.program import Sequence, StreamCopyOut
from tilescope.reports import open_report
from tilescope.reports.schema import provenance


def machine_under(options: object, **asked: int) -> Machine:
    text = options if isinstance(options, str) else json.dumps(options)
    return load_machine(environ={"POPLAR_TARGET_OPTIONS": text}, **asked)  # type: ignore[arg-type]


def test_topology_of_the_environment_takes_precedence() -> None:
    assert machine_under({}).link_topology == "ladder"
    assert machine_under({"ipuLinkTopology": "torus"}).link_topology == "torus"
    environ = {"POPLAR_TARGET_OPTIONS": '{"ipuLinkTopology": "line"}'}
    assert load_machine(link_topology="torus", environ=environ).link_topology == "ladder"


def test_what_poprun_sets_is_known_and_recorded() -> None:
    values = {
        "ipuLinkDomainSize": "64",
        "ipuLinkConfiguration": "slidingWindow",
        "ipuLinkTopology": "torus",
        "gatewayMode": True,
        "instanceSize": 64,
        "syncConfiguration": "intraReplicaAndAll",
    }
    assert set(values) == set(TARGET_OPTIONS)
    recorded = dict(machine_under(values).target_options)
    assert recorded == {**values, "gatewayMode": "true", "instanceSize": "64"}


def test_more_ipus_than_the_link_domain() -> None:
    assert machine_under({"ipuLinkDomainSize": 4}, n_ipus=4).n_ipus == 4
    with pytest.raises(BadMachine, match="n_ipus is 8, more than the link domain of 4"):
        machine_under({"ipuLinkDomainSize": 4}, n_ipus=8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ipuLinkTopolgy": "torus"}, ["unknown key", "'ipuLinkTopology'"]),
        (
            {"ipuLinkTopology": "star"},
            ["expected torus or line or mesh for 'ipuLinkTopology', got 'star'"],
        ),
        ({"ipuLinkDomainSize": 65}, ["an integer from 1 to 64", "'65'"]),
        ({"gatewayMode": "yes"}, ["true or false"]),
        ({"syncConfiguration": ["a"]}, ["expected a string"]),
        ("{", ["not valid JSON", "ipuLinkTopology"]),
        ("[]", ["must be a JSON object"]),
    ],
)
def test_invalid_values(options: object, words: list[str]) -> None:
    with pytest.raises(BadOption) as caught:
        machine_under(options)
    assert all(word in str(caught.value) for word in words)


def test_the_report_records_them(tmp_path: Path) -> None:
    graph = Graph(machine_under({"gatewayMode": "false"}, tiles_per_ipu=2))
    x = graph.add_variable("float32", (4,), "x")
    graph.map_linearly(x)
    program = Sequence("main")
    program.add(StreamCopyOut(x, "out"))
    options = resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    )
    with Engine(compile_programs(graph, [program]), options) as engine:
        engine.run()
    with open_report(tmp_path) as report:
        columns = report.table(provenance)
    facts = dict(zip(columns["key"], columns["value"], strict=True))
    assert json.loads(facts["target_options"]) == {"gatewayMode": "false"}
