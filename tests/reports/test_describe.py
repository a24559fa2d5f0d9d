from pathlib import Path

from tilescope.reports.describe import PAGE, describe
from tilescope.reports.schema import ARRAYS, metadata

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == describe(), (
        "run python -m tilescope.reports.describe --write"
    )


def test_the_page_names_every_table_column_and_array():
    page = describe()
    for table in metadata.sorted_tables:
        section = page.split(f"### `{table.name}`\n")[1].split("\n#")[0]
        assert table.comment
        assert table.comment in section
        for column in table.columns:
            assert f"`{column.name}`" in section
            assert column.comment
            assert column.comment in section
    for name in ARRAYS:
        assert f"| `{name}` |" in page
