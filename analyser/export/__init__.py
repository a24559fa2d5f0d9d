"""Differences, gates and figures in the formats that other programs read; one format per file."""

from tilescope.analyser.export.annotation import workflow_commands
from tilescope.analyser.export.diff_document import DiffDocument, diff_document
from tilescope.analyser.export.html_page import html_page
from tilescope.analyser.export.json_document import json_document
from tilescope.analyser.export.junit import junit
from tilescope.analyser.export.markdown import markdown
from tilescope.analyser.export.sarif import sarif
from tilescope.analyser.export.step_summary import MOST_BYTES as MOST_SUMMARY_BYTES
from tilescope.analyser.export.step_summary import step_summary
from tilescope.analyser.export.tracker import TRACKER_FORMATS, bencher, github_action_benchmark

__all__ = [
    "MOST_SUMMARY_BYTES",
    "TRACKER_FORMATS",
    "DiffDocument",
    "bencher",
    "diff_document",
    "github_action_benchmark",
    "html_page",
    "json_document",
    "junit",
    "markdown",
    "sarif",
    "step_summary",
    "workflow_commands",
]
