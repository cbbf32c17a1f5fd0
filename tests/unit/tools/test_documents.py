"""What the documents promise about files that somebody else changes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from scheduler_service.model.policy import Policy
from tools.progress import ROOT

DIFFERENCES = (ROOT / "docs" / "differences-from-kai.md").read_text()


def named_scenarios() -> set[str]:
    """Return the ids in the table; ", -004" after an id stands for the same suite."""
    found: set[str] = set()
    for suite, numbers in re.findall(
        r"((?:field|rules)-[a-z-]+?)-(\d{3}(?:, -\d{3})*)", DIFFERENCES
    ):
        found |= {f"{suite}-{number}" for number in re.findall(r"\d{3}", numbers)}
    return found


def test_every_difference_from_kai_is_named_with_its_scenario(shared_folder: Path):
    tagged = set()
    for path in (shared_folder / "conformance" / "scenarios").rglob("*.json"):
        scenario = json.loads(path.read_text())
        if "differs-from-kai" in scenario.get("tags", []):
            tagged.add(path.stem)

    assert tagged
    assert named_scenarios() == tagged


def test_every_difference_has_a_scenario_that_is_there():
    rows = [line for line in DIFFERENCES.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) == 15
    for row in rows:
        shown = row.strip("| ").rpartition("|")[2]
        ours = re.findall(r"`([a-z/-]+)`", shown)
        assert ours or re.search(r"(field|rules)-[a-z-]+-\d{3}", shown), row
        for name in ours:
            assert (ROOT / "tests" / "scenarios" / f"{name}.yaml").is_file(), name


def test_every_addition_of_the_default_policy_is_told():
    plain, default = Policy.conformance(), Policy.default()
    for field in Policy.__struct_fields__:
        if getattr(plain, field) != getattr(default, field):
            assert f"`{field}`" in DIFFERENCES


def test_every_changelog_fragment_has_a_kind_that_the_changelog_knows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    kinds = {kind["directory"] for kind in project["tool"]["towncrier"]["type"]}
    fragments = [p for p in (ROOT / "docs" / "changelog.d").iterdir() if p.name != "README.md"]

    assert fragments
    for path in fragments:
        assert re.fullmatch(r"(\d+|\+[a-z-]+)\.[a-z]+\.md", path.name), path.name
        assert path.name.split(".")[1] in kinds
        assert path.read_text().strip()
