"""The fair-share tables of the conformance data, where that is present."""

import os
from pathlib import Path

import pytest

from scheduler_service.simulate import source, tables

SHARED = Path(os.environ.get("KAI_SHARED", Path(__file__).parents[4] / "shared"))
FOLDER = SHARED / "conformance" / "fair_share"
FILES = sorted(FOLDER.glob("*.json"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no conformance tables under {FOLDER}")


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_planner_reaches_the_table(file: Path):
    assert tables.failures(source.read(file)) == []


def test_a_wrong_result_is_found():
    table = source.read(FILES[0])
    wrong = {**table, "expect": dict.fromkeys(table["expect"], "wrong")}

    assert tables.failures(wrong)


def test_an_unknown_kind_is_a_failure():
    assert tables.failures({"kind": "guess"}) == [
        "kind 'guess' is none of division, queue_order, capacity, admission, strategy, reclaim"
    ]
