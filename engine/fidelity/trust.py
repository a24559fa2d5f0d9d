"""What the table means, in plain words: how far to trust a number, and what is not modelled."""

from __future__ import annotations

__all__ = ["NOT_MODELLED", "TRUST"]

#: Number, trust, reason.
TRUST = (
    (
        "Cycles of a product's or convolution's vertices (AMP unit)",
        "10 percent",
        "the library's own estimators, which silicon confirms (C2, C5, C6, C7, F1)",
    ),
    (
        "Cycles of elementwise operations, casts and reductions",
        "about 10 percent",
        "the library's own estimators and the measured start of workers (C3, C8, C11, F2 to F5)",
    ),
    (
        "Exchange cycles",
        "25 percent, more for many small pieces",
        "the busiest tile decides; order, routes and conflicts are not modelled (C9)",
    ),
    (
        "Exchange cycles between IPUs",
        "factor of several on the hardware",
        "a rate, and a start from one program on 16 IPUs; on fewer it took thrice (F7, F8, F11)",
    ),
    (
        "Cycles of a custom codelet whose instructions are counted",
        "20 percent",
        "twelve times of two authors' programs on one IPU are within it (C21, F6, F9, F10)",
    ),
    (
        "Cycles of copies that rearrange",
        "factor of several",
        "real layouts and the compiler's choice of copy vertices are not known (C12, F15); blocks"
        " of rows come within 20 percent where they are large (C16)",
    ),
    (
        "Total cycles of a program",
        "15 percent where products dominate",
        "one published program says so; its parts miss by more than their sum (C13)",
    ),
    (
        "Memory, gaps left out",
        "15 percent",
        "variables and messages are counted, code sizes are estimates (C14, C15)",
    ),
    (
        "Memory with gaps",
        "20 percent where products dominate",
        "what vertices ask of places is the library's, where the rest goes is our own first fit"
        " (C14)",
    ),
    (
        "Code bytes by category",
        "order of magnitude",
        "sizes come from a few reports; what the compiler links in besides is not known (C14, C15)",
    ),
    (
        "Differences between two reports of ours",
        "better than either",
        "what is wrong in both in the same way cancels; compare on one machine and one set",
    ),
)

NOT_MODELLED = (
    "The original's planner: ours searches its own space of splits, with the same vertex costs.",
    "Routes: an exchange is charged the way to its receivers' rows of tiles, and load does not slow"
    " it down.",
    "Conflicts of threads over a memory element, and instruction fetches. What vertices ask of"
    " their operands' places is met; a wrong place costs cycles only where a codelet's law says"
    " so.",
    "Data: vertices of the library take as long whatever the values; on silicon divisions and"
    " powers do not.",
    "The start of workers by control code where no measurement shows it: of copies and"
    " transpositions on a tile, and of users' vertices, which cost what their laws say.",
    "The host: it is always ready and its streams run at one rate. A copy that calls back to the"
    " host was published to wait 77,000 to 88,000 cycles for it, as it begins and again as it ends;"
    " `host_wait_cycles` of a machine adds what yours takes.",
)
