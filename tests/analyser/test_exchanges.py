"""Exchanges, selections and the layer of steps, computed on paper for the small report."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.exchanges import busiest_tiles, exchanges
from tilescope.analyser.program.operations import operations
from tilescope.analyser.summary.metrics import ipu_values, values
from tilescope.analyser.time.execution import execution, steps
from tilescope.analyser.time.selection import Selection, selected_cycles, selected_step_cycles


def test_exchanges_of_the_small_report(small):
    actual = exchanges(small)
    assert [item.step_id for item in actual.exchanges] == [0, 2, 4]
    assert [item.total_cycles for item in actual.exchanges] == [200, 40, 30]
    assert (actual.cycles, actual.total_cycles, actual.n_runs) == (270, 970, 2)
    copy, exchange, loop = actual.exchanges
    # 64 bytes of the host and 24 to remote buffers, on each of two IPUs.
    assert (copy.host_bytes, copy.remote_bytes, copy.code_bytes) == (128, 48, 8)
    assert (exchange.cycles, exchange.sent_bytes, exchange.received_bytes) == (25, 64, 96)
    assert (exchange.max_sent_bytes, exchange.n_fragments, exchange.code_bytes) == (16, 1, 24)
    assert (exchange.senders, exchange.receivers) == ((), ())
    assert loop.n_executions == 6


def test_a_search_and_one_ipu(small):
    (item,) = exchanges(small, "RELU").exchanges
    assert item.name == "layer1/relu/exchange"
    # IPU 1: 25 cycles of the exchange before the convolution in each of two runs of 440.
    actual = exchanges(small, "conv", Selection(ipu_id=1))
    assert [item.total_cycles for item in actual.exchanges] == [50]
    assert actual.total_cycles == 880
    assert actual.exchanges[0].sent_bytes == 32


def test_a_step_that_moves_nothing(small):
    assert busiest_tiles(small, 2) == ()
    with pytest.raises(BadQuestion, match="step 3 is not an exchange"):
        busiest_tiles(small, 3)


@pytest.mark.parametrize("ipu_id", [None, 0, 1])
def test_runs_add_up(small, ipu_id):
    full = Selection(ipu_id)
    parts = [Selection(ipu_id, run_id) for run_id in (0, 1)]
    assert sum(selected_cycles(small, part) for part in parts) == selected_cycles(small, full)
    summed = sum(selected_step_cycles(small, part) for part in parts)
    assert np.array_equal(summed, selected_step_cycles(small, full))
    ran = [execution(small, run_id) for run_id in (0, 1)]
    assert np.array_equal(ran[0].executions + ran[1].executions, execution(small).executions)
    expected = values(small)["cycles.total"]
    if ipu_id is not None:
        expected = ipu_values(small)["cycles.total"][ipu_id]
    assert selected_cycles(small, full) == expected


def test_steps_are_a_layer_of_operations(small):
    listed = operations(small, "step")
    assert (listed.layer, listed.total_cycles, len(listed.operations)) == ("step", 970, 7)
    assert sum(row.cycles for row in listed.operations) == 970
    first = listed.operations[0]
    assert (first.step_id, first.operation, first.cycles, first.code_bytes) == (
        3, "OnTileExecute", 400, 8,
    )  # fmt: skip
    assert first.flops == 4000
    assert set(listed.by_key) >= {"layer1/conv", "in", "out_100%"}
    kinds = {kind.operation: kind.cycles for kind in listed.kinds}
    assert kinds["DoExchange"] == 70
    assert len(listed.by_key) == len(steps(small))


def test_operations_of_one_ipu_and_run(small):
    (call,) = operations(small, "library", Selection(1, 0)).operations
    # Convolution 150 and three times relu 30 on IPU 1.
    assert (call.cycles, call.compute_cycles, call.flops) == (240, 240, 4000)
    with pytest.raises(BadQuestion, match="ipus 0 to 1"):
        operations(small, "library", Selection(ipu_id=2))
