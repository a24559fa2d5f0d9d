"""What a report may not hold: numbers that would lead nowhere, or past the memory of this machine.

Digests only say that a file is what its writer wrote; these checks keep a hostile one from doing
more than being refused.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.errors import DamagedReport

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["require", "require_below", "require_known"]


def require(report: Report, is_plausible: bool, subject: str) -> None:
    """Reject an implausible report; ``subject`` ends the sentence.

    Raises
    ------
    DamagedReport
        When it is not plausible.
    """
    if not is_plausible:
        raise DamagedReport(
            f"{report.name} is damaged: {subject}; run the model again or get another copy."
        )


def require_below(report: Report, values: NDArray[np.integer], limit: int, subject: str) -> None:
    """Refuse identities that are not from 0 up to a limit; ``subject`` names them.

    Raises
    ------
    DamagedReport
        When one is not.
    """
    if values.size:
        lowest, highest = int(values.min()), int(values.max())
        offending = lowest if lowest < 0 else highest
        require(
            report, lowest >= 0 and highest < limit, f"{subject} {offending} is not one of {limit}"
        )


def require_known(
    report: Report, values: Iterable[Hashable], known: Collection[Hashable], subject: str
) -> None:
    """Refuse values that are not known; ``subject`` ends the sentence, with {} for the value.

    Raises
    ------
    DamagedReport
        When one is not.
    """
    for value in set(values).difference(known):
        text = repr(value[:40]) if isinstance(value, str) else value
        require(report, False, subject.format(text))
