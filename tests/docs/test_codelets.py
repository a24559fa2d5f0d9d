"""Every codelet names the public source of its cycle law, and the page lists it."""

from __future__ import annotations

import re

from docs.generate import DOCS
from docs.pages.codelets import codelets_of_the_library

#: A repository, what is cited of it, and where in it.
_CITED = re.compile(
    r"(Assumption: .* of )?"
    r"(graphcore/poplibs sdk-release-\d\.\d"
    r"|graphcore-research/tessellate-ipu"
    r"|osmarks/ipu-stack)"
    r"(, \S.*|: \S.*)?"
)
#: Laws without a public estimator of their own.
_ASSUMED = {
    "tilescope::CumulativeSum",
    "popnn::ROIAlignBackward",
    "gcl::RingIndex",
    "gcl::RingStep",
    *(f"popnn::CTCGenerate{part}" for part in ("CopyCandidates", "ExtendCandidates", "Output")),
    *(f"popnn::CTC{part}Candidates" for part in ("Merge", "SelectCopy", "SelectExtend")),
}


def test_every_law_has_a_public_source() -> None:
    actual = codelets_of_the_library()
    assert len(actual) > 300
    without = [codelet.name for codelet in actual if not _CITED.fullmatch(codelet.source)]
    assert without == []


def test_assumptions_are_named() -> None:
    assumed = {
        codelet.name
        for codelet in codelets_of_the_library()
        if codelet.source.startswith("Assumption")
    }
    assert assumed == _ASSUMED


def test_the_page_lists_every_codelet() -> None:
    page = (DOCS / "reference/codelets.md").read_text(encoding="utf-8")
    for codelet in codelets_of_the_library():
        name, source = codelet.name.partition("<")[0], codelet.source
        assert f"| `{name}` |" in page
        assert f"| {source} |" in page
