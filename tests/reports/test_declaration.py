"""The tables that readers and writers use are those that are declared."""

import subprocess
import sys
from pathlib import Path

from docs import schema_tables

ROOT = Path(__file__).parents[2]


def test_the_generated_module_is_up_to_date():
    written = schema_tables.PATH.read_text("utf-8")
    assert written == schema_tables.render(), "run `make docs`"


def test_neither_reading_nor_writing_imports_sqlalchemy(tmp_path):
    program = (
        "import sys\n"
        "from tests.generated_report import generate_report\n"
        "from tilescope import analyser\n"
        "from tilescope.analyser.diff import compare\n"
        "from tilescope.analyser.summary.summarise import summarise\n"
        f"path = generate_report({str(tmp_path)!r}, n_tiles=8, n_steps=30)\n"
        "with analyser.open(path) as report:\n"
        "    summarise(report)\n"
        "    compare(report, report)\n"
        "assert 'sqlalchemy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
