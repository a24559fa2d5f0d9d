"""Interpretation of the fidelity table: expected errors, and effects that are not modelled."""

from __future__ import annotations

__all__ = ["NOT_MODELLED", "TRUST"]

#: Kind of figure, expected error, reason.
TRUST = (
    (
        "Cycles of product and convolution vertices (AMP unit)",
        "10 %",
        "the library's own estimators, confirmed on silicon (C2, C5, C6, C7, F1)",
    ),
    (
        "Cycles of elementwise operations, casts and reductions",
        "about 10 %",
        "the library's own estimators and the measured worker start (C3, C8, C11, F2 to F5)",
    ),
    (
        "Exchange cycles",
        "10 % where blocks of a few hundred bytes move",
        "a list schedule of sends, three phases within 5 % (C9, C16); the order of the published"
        " compiler is unknown, conflicts are not modelled",
    ),
    (
        "Exchange cycles between IPUs",
        "factor of several on the hardware",
        "a rate, and a latency from one program on 16 IPUs; with fewer IPUs it was three times as"
        " long (F7, F8, F11)",
    ),
    (
        "Cycles of a custom codelet with counted instructions",
        "20 %",
        "twelve times of two authors' programs on one IPU are within 20 % (C21, F6, F9, F10)",
    ),
    (
        "Cycles of rearranging copies",
        "factor of several",
        "real layouts and the compiler's choice of copy vertices are unknown (C12, F15); large"
        " blocks of rows are within 20 % (C16)",
    ),
    (
        "Total cycles of a program",
        "15 % if products dominate",
        "based on one published program; its parts have larger errors than their sum (C13)",
    ),
    (
        "Memory without gaps",
        "15 %",
        "variables and messages are counted, code sizes are estimates (C14, C15)",
    ),
    (
        "Memory with gaps",
        "20 % if products dominate",
        "placement constraints are the library's; the first-fit allocator is our own (C14)",
    ),
    (
        "Code bytes by category",
        "order of magnitude",
        "sizes come from a few reports; other linked code is unknown (C14, C15)",
    ),
    (
        "Differences between two simulated reports",
        "smaller than either error",
        "common errors cancel; compare on one machine and one parameter set",
    ),
)

NOT_MODELLED = (
    "Poplar's planner: ours searches its own space of splits, with the same vertex costs.",
    "Routes: an exchange includes the latency to its receivers' rows of tiles; load does not slow"
    " it down.",
    "Conflicts of threads over a memory element, and instruction fetches. Placement constraints"
    " of vertices are met; a placement costs cycles only where a codelet's law says so.",
    "Data: library vertices take the same time for all values; on silicon, divisions and powers"
    " do not.",
    "Worker start by control code where no measurement shows it: for copies and transpositions on"
    " a tile, and for custom vertices, which cost what their laws say.",
    "The host: it is always ready, and its streams run at one rate. A copy that calls back to the"
    " host has been published to wait 77,000 to 88,000 cycles at its start and again at its end;"
    " `host_wait_cycles` of a machine adds such a wait.",
)
