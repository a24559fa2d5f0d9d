"""Counter-based random numbers: Philox4x32-10, and the inverse of the normal distribution.

The number of an element is a function of a key and of the element's position, so it depends on
neither tiling nor machine.

Source: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, SC'11, section
3.3 and table 2 (rounds, multipliers, Weyl constants). Inverse: M. J. Wichura, Algorithm AS 241, the
Percentage Points of the Normal Distribution, Applied Statistics 37 (1988), PPND7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.host.jit._jit import jit

__all__ = ["PHILOX_ROUNDS", "normal_quantile", "philox", "philox_block"]

PHILOX_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_M0, _M1 = _MULTIPLIERS
_W0, _W1 = _WEYL
_MASK = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(32)


@jit
def philox_block(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Return the four numbers of a counter and a key; all are 32 bits as uint64."""
    for _ in range(PHILOX_ROUNDS):
        first, second = _M0 * c0, _M1 * c2
        c0, c2 = (second >> _BITS) ^ c1 ^ k0, (first >> _BITS) ^ c3 ^ k1
        c1, c3 = second & _MASK, first & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@jit
def philox(counter: Any, modifier: Any, low_key: Any, high_key: Any, lane: int) -> Any:
    """Return one of the four 32-bit numbers of a counter, as uint64."""
    counter_word = np.uint64(counter)
    c0, c1, c2, c3 = philox_block(
        counter_word & _MASK,
        counter_word >> _BITS,
        np.uint64(modifier) & _MASK,
        np.uint64(0),
        np.uint64(low_key) & _MASK,
        np.uint64(high_key) & _MASK,
    )
    if lane == 0:
        return c0
    if lane == 1:
        return c1
    return c2 if lane == 2 else c3


@jit
def normal_quantile(p: float) -> Any:
    """Return the value below which a standard normal variable lies with probability `p`."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        upper = ((5.9109374720e1 * r + 1.5929113202e2) * r + 5.0434271938e1) * r + 3.3871327179
        return q * upper / (((6.7187563600e1 * r + 7.8757757664e1) * r + 1.7895169469e1) * r + 1)
    r = np.sqrt(-np.log(p if q < 0 else 1 - p))
    if r <= 5:
        r -= 1.6
        upper = ((1.7023821103e-1 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
        value = upper / ((1.2021132975e-1 * r + 7.3700164250e-1) * r + 1)
    else:
        r -= 5
        upper = ((1.7337203997e-2 * r + 4.2868294337e-1) * r + 3.0812263860) * r + 6.6579051150
        value = upper / ((1.2258202635e-2 * r + 2.4197894225e-1) * r + 1)
    return -value if q < 0 else value
