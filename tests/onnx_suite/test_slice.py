"""A slice of ONNX's newest suite: the first cases of each operator."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.onnx_suite.__main__ import outcome
from tests.onnx_suite.cases import Case, cases, missing, names

from tilescope.engine.operators import supported_operators

_PER_OPERATOR = 1
#: Operators that no case of the suite can show: their own tests do.
_TESTED_ELSEWHERE = {"Bernoulli": "random"}


@pytest.fixture(scope="module")
def every_case(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("suite")
    return {
        case.name: case
        for name in ("onnx-1.23.2", "onnx-1.23.2-extended")
        for case in cases(name, folder)
        if case.kind == "node"
    }


def _slice(every_case: dict[str, Case]) -> list[Case]:
    """Return the first cases of every operator that are expected to pass."""
    counts: Counter[str] = Counter()
    results = []
    for name, case in every_case.items():
        operator = case.model.graph.node[0].op_type
        if name not in missing() and counts[operator] < _PER_OPERATOR:
            counts[operator] += 1
            results.append(case)
    return results


@pytest.mark.slow
def test_the_first_cases_of_every_operator_pass(every_case: dict[str, Case]) -> None:
    actual = _slice(every_case)
    assert len(actual) > 150
    failed = {case.name: subject for case in actual if (subject := outcome(case))}
    assert failed == {}


def test_what_is_missing_is_refused_in_one_sentence(every_case: dict[str, Case]) -> None:
    """Of those listed, the first of each operator."""
    firsts: dict[str, Case] = {}
    for name, reason in missing().items():
        if name in every_case and not reason.is_wrong:
            firsts.setdefault(every_case[name].model.graph.node[0].op_type, every_case[name])
    ends = {case.name: outcome(case) for case in firsts.values()}
    assert {
        name: subject for name, subject in ends.items() if not subject.startswith("refused: ")
    } == {}


def test_the_lists_name_each_case_once() -> None:
    for name in ("onnx-1.6.0", "onnx-1.23.2", "popart-1.6.0"):
        assert len(set(names(name))) == len(names(name)) > 300
    extra = names("onnx-1.23.2-extended")
    assert not set(extra) & set(names("onnx-1.23.2"))
    every = (*names("onnx-1.6.0"), *names("onnx-1.23.2"), *extra)
    assert set(missing()) <= {case for _, case in every}


def test_operators_of_the_suite_are_supported(every_case: dict[str, Case]) -> None:
    """An operator without a case that passes is not in the table, and the other way round."""
    passing = {
        op_type
        for name, case in every_case.items()
        if name not in missing()
        for op_type in case.op_types
    }
    of_the_suite = {op_type for case in every_case.values() for op_type in case.op_types}
    assert set(supported_operators()) & of_the_suite - set(_TESTED_ELSEWHERE) <= passing
