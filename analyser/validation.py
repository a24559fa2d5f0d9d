"""What a report may not hold: numbers that would lead nowhere, or past the memory of this machine.

Digests only say that a file is what its writer wrote; these checks keep a hostile one from doing
more than being refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.errors import DamagedReport

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["require", "require_below"]


def require(report: Report, is_plausible: bool, what: str) -> None:
    """Reject an implausible report; ``what`` ends the sentence.

    Raises
    ------
    DamagedReport
        When it is not plausible.
    """
    if not is_plausible:
        raise DamagedReport(
            f"{report.path} is damaged: {what}; run the model again or get another copy."
        )


def require_below(report: Report, values: NDArray[np.integer], limit: int, what: str) -> None:
    """Refuse identities that are not from 0 up to a limit; ``what`` names them.

    Raises
    ------
    DamagedReport
        When one is not.
    """
    if values.size:
        least, most = int(values.min()), int(values.max())
        wrong = least if least < 0 else most
        require(report, least >= 0 and most < limit, f"{what} {wrong} is not one of {limit}")
