"""The memory of an array that is gone serves the next one."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

_CODE = """
import resource, sys
import numpy as np
from tilescope.engine.host.memory import keep_freed

if sys.argv[1] == "kept":
    keep_freed()


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def work():
    arrays = [np.ones(1 << 19) for _ in range(4)]  # 16 MiB
    arrays.clear()


work()
before = faults()
for _ in range(20):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these settings")
def test_pages_are_taken_once() -> None:
    pages_a_round = (16 << 20) // resource.getpagesize()
    n_faults = {}
    for how in ("kept", "given back"):
        command = [sys.executable, "-c", _CODE, how]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        n_faults[how] = int(answer.stdout)
    assert n_faults["kept"] < pages_a_round < n_faults["given back"]
