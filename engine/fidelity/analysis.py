"""What the table means, in plain words: why rows miss, what to trust, what is not modelled."""

from __future__ import annotations

__all__ = ["MISSES", "TRUST", "UNKNOWN"]

#: By target: which law or plan is responsible. Shown while the target has a row that misses.
MISSES = {
    "C8": (
        "Both casts take 128 cycles more on the machine than by the library's law: it has none for"
        " the format and scale that every worker sets first. How many they are is told nowhere but"
        " by these two figures."
    ),
    "C12": (
        "The recorded copy went element by element; our compiler finds runs of 16 contiguous"
        " halves in the same layouts and copies rows. How the recorded tensors lay is not"
        " published, so the law for strided copies is not reached here."
    ),
    "C13": (
        "The exchange takes about a third of our total and about a tenth of the published one: the"
        " library's plans let the two tiles of a pair receive the same words over a shared bus at"
        " double rate, which our exchange does not know. Our planner therefore splits the inner"
        " dimension ten ways to exchange less, which makes the convolution shorter, its reduction"
        " shorter, and the tiles more even than published; parallel efficiency falls with the"
        " exchange."
    ),
    "C14": (
        "Gaps: partial sums lie in interleaved memory, behind all that is not, in both layouts; the"
        " published plan leaves 72 tiles without any, ours none. The published total is what 1,400"
        " tiles make that end 6,400 bytes into the interleaved region, and 72 with 2.2 kB each."
        " Always live: the state of our vertices takes 1.0 MB where the published one"
        " (instances, fields, worklists) takes 0.6. Peak: what our plan brings to a tile for the"
        " first product is less than the published plan's. A tile without work: the published plan"
        " leaves 72 tiles idle, ours gives all tiles work; and what an idle tile holds there is"
        " less than a stack, so that the IPU Model seems to count none."
    ),
    "C16": (
        "Half: the published codelet takes 28 instructions a pixel and its source has 23. It stores"
        " whole vectors, which may alias the picture's width, so that the compiler works out places"
        " anew for each pixel; how, is not published. Sync: the published one differs between the"
        " two programs (64 and 117 cycles), ours does not."
    ),
}

#: Number, trust, reason.
TRUST = (
    (
        "Cycles of a product's or convolution's vertices (AMP unit)",
        "a few percent",
        "the library's own estimators, which silicon confirms (C2, C5, C6, C7)",
    ),
    (
        "Cycles of elementwise operations, casts and reductions",
        "about 10 percent; small casts of float8 25",
        "the library's own estimators; silicon is a few percent slower (C3, C8, C11)",
    ),
    (
        "Exchange cycles",
        "25 percent, more for many small pieces",
        "the busiest tile decides; order, routes and conflicts are not modelled (C9)",
    ),
    (
        "Cycles of copies that rearrange",
        "factor of several",
        "real layouts and the compiler's choice of copy vertices are not known (C12)",
    ),
    (
        "Total cycles of a program",
        "15 to 20 percent where products dominate",
        "plans differ from the original's (C13)",
    ),
    (
        "Memory, gaps left out",
        "15 percent",
        "variables and messages are counted, code sizes are estimates (C14, C15)",
    ),
    (
        "Memory with gaps",
        "20 percent where products run on most tiles",
        "interleaved operands lie behind all else, as published (C14); how the original orders what"
        " lies in one region is not known",
    ),
    (
        "Code bytes by category",
        "order of magnitude",
        "the original's code generator is not modelled (C14, C15)",
    ),
    (
        "Differences between two reports of ours",
        "better than either",
        "what is wrong in both in the same way cancels; compare on one machine and one set",
    ),
)

UNKNOWN = (
    "The original's planner: ours searches its own space of splits, with the same vertex costs.",
    "Routes: an exchange is charged the way to its receivers' rows of tiles, and load does not slow"
    " it down.",
    "Conflicts over a memory element between exchange, instruction fetches and vertices.",
    "Data: vertices of the library take as long whatever the values; on silicon divisions and"
    " powers do not.",
    "float8: what setting its format and scale takes in a cast (C8).",
    "The host: it is always ready and its streams run at one rate. A copy that calls back to the"
    " host was published to wait 77,000 to 88,000 cycles for it, as it begins and again as it ends;"
    " `host_wait_cycles` of a machine adds what yours takes.",
)
