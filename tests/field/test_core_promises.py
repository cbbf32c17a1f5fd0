"""What the table of promises names is there."""

import os
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
SHARED = Path(os.environ.get("KAI_SHARED", HERE.parents[2] / "shared")) / "conformance"
ROWS = [
    line
    for line in (HERE / "CORE.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| promise", "| **"))
]


def held_by(row: str) -> list[str]:
    cell = row.strip("| ").rpartition(" | ")[2]
    return [part.strip().strip("`") for part in cell.split(";")]


def is_there(named: str) -> bool:
    if named.startswith("shared "):
        suites = named.removeprefix("shared ").split(", ")
        return not SHARED.exists() or all(map(_is_suite, suites))
    file, _, name = named.partition("::")
    if not name:
        return (TESTS / "scenarios" / f"{named}.yaml").is_file()
    path = TESTS / ("properties/laws.py" if file == "laws.py" else file)
    return re.search(rf"^def {re.escape(name)}\(", path.read_text(), re.MULTILINE) is not None


def _is_suite(name: str) -> bool:
    if name == "fair-share tables":
        return any((SHARED / "fair_share").glob("*.json"))
    return any((SHARED / "scenarios").glob(f"{name.replace('/', '-')}-*.json"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_what_holds_a_promise_is_there(row: str):
    assert [named for named in held_by(row) if not is_there(named)] == []
    assert held_by(row)
