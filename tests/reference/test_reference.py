"""The judge is judged first: the reference agrees with the shared scenarios it can speak about."""

import pytest

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, source
from tests.reference.allocate import Reference

SPOKEN_OF_ELSEWHERE = {"topology", "affinity", "claims", "legacy-mig"}


def scenarios(folder):
    for file in sorted((folder / "conformance" / "scenarios").glob("*.json")):
        raw = source.read(file)
        if raw["run"]["action"] == "allocate" and not SPOKEN_OF_ELSEWHERE & set(raw["tags"]):
            yield reader.scenario_of(file, raw, Policy.conformance())


def test_the_reference_gives_every_shared_allocate_scenario_its_outcome(shared_folder):
    found = list(scenarios(shared_folder))
    if not found:
        pytest.skip("the shared scenarios are not there")
    wrong = []
    for scenario in found:
        places = Reference(scenario.world.snapshot, scenario.world.policy).allocate()
        for name, expected in scenario.expect.pods.items():
            place = places[scenario.world.key_of_pod[name]]
            at = place.node if isinstance(expected.node, str) else expected.node
            if (place.state.value, at) != (expected.state, expected.node):
                wrong.append((scenario.id, name, expected, place))

    assert not wrong
    assert len(found) > 100
