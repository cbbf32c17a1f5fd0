"""What the coverage table names is there, so that it can be believed."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "field"
TABLES = sorted(HERE.glob("*.md"))
LINES = [line for table in TABLES for line in table.read_text().splitlines()]
ROWS = [line for line in LINES if line.startswith("| L")]


def named_in(row):
    """Yield (file, beginning of the name) of the tests in a row."""
    for file, name in re.findall(r"`([\w/]+\.py)::(test_\w+)", row):
        yield HERE / file if "/" not in file else HERE.parent / file, name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:6])
def test_the_tests_of_a_report_exist(row):
    for file, name in named_in(row):
        assert f"def {name}" in file.read_text(), f"{file} has no {name}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:6])
def test_the_scenarios_of_a_report_exist(row):
    named = re.findall(r"(?<!own )scenarios? (L\d+)(?:, (L\d+))?", row)

    for report in (report for pair in named for report in pair if report):
        assert list(SCENARIOS.glob(f"{report}-*.yaml")), f"no scenario of {report}"


def test_every_scenario_is_in_the_table():
    text = "\n".join(ROWS)

    assert not [file.name for file in SCENARIOS.glob("*.yaml") if file.name[:4] not in text]
