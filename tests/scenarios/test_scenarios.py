"""Worked examples of decisions: the shared conformance data where it is present, and our own.

Each of our own files names the rule it protects in `rule`; the folder reads as the specification.
"""

import os
from pathlib import Path

import pytest

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, run
from tests.properties.large_ways import from_size

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("KAI_SHARED", HERE.parents[2] / "shared"))
GIVEN = sorted((SHARED / "conformance" / "scenarios").glob("*.json"))
OWN = sorted(HERE.rglob("*.yaml"))


@pytest.mark.skipif(not GIVEN, reason=f"no conformance scenarios under {SHARED}")
@pytest.mark.parametrize("policy", [Policy.conformance(), Policy.default()], ids=["plain", "ours"])
@pytest.mark.parametrize("file", GIVEN, ids=[file.stem for file in GIVEN])
def test_the_given_scenario_passes(file: Path, policy: Policy):
    assert run.failures(reader.read_scenario(file, policy)) == []


@pytest.mark.parametrize("file", OWN, ids=[str(file.relative_to(HERE)) for file in OWN])
def test_our_own_scenario_passes(file: Path):
    assert run.failures(reader.read_scenario(file, Policy.conformance())) == []


@pytest.mark.parametrize("file", OWN, ids=[str(file.relative_to(HERE)) for file in OWN])
def test_our_own_scenario_passes_in_the_ways_for_many_nodes_and_pods(file: Path):
    with from_size(1):
        assert run.failures(reader.read_scenario(file, Policy.conformance())) == []


@pytest.mark.parametrize("file", OWN, ids=[str(file.relative_to(HERE)) for file in OWN])
def test_our_own_scenario_says_what_it_protects(file: Path):
    scenario = reader.read_scenario(file, Policy.conformance())

    assert scenario.about
    assert scenario.rule
