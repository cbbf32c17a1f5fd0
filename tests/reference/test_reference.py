"""The judge is judged first: the reference agrees with the shared scenarios it can speak about."""

import pytest

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, source
from tests.reference.allocate import Reference
from tests.reference.making_room import MakingRoom

SPOKEN_OF_ELSEWHERE = {"affinity", "claims", "legacy-mig"}


MAKES_ROOM = {"consolidation", "reclaim", "preempt", "stale_gang_eviction"}


def scenarios(folder, actions):
    for file in sorted((folder / "conformance" / "scenarios").glob("*.json")):
        raw = source.read(file)
        if raw["run"]["action"] in actions and not SPOKEN_OF_ELSEWHERE & set(raw["tags"]):
            yield reader.scenario_of(file, raw, Policy.conformance())


def wrong_in(scenario, places):
    for name, expected in scenario.expect.pods.items():
        place = places[scenario.world.key_of_pod[name]]
        at = place.node if isinstance(expected.node, str) else expected.node
        if (place.state.value, at) != (expected.state, expected.node):
            yield scenario.id, name, expected, place


def test_the_reference_gives_every_shared_allocate_scenario_its_outcome(shared_folder):
    found = list(scenarios(shared_folder, {"allocate"}))
    if not found:
        pytest.skip("the shared scenarios are not there")
    wrong = []
    for scenario in found:
        places = Reference(scenario.world.snapshot, scenario.world.policy).allocate()
        wrong += wrong_in(scenario, places)

    assert not wrong
    assert len(found) > 100


def test_the_reference_gives_every_shared_scenario_that_makes_room_its_outcome(shared_folder):
    found = list(scenarios(shared_folder, MAKES_ROOM))
    if not found:
        pytest.skip("the shared scenarios are not there")
    wrong = []
    for scenario in found:
        made = MakingRoom(scenario.world.snapshot, scenario.world.policy)
        wrong += wrong_in(scenario, made.run(scenario.actions))

    assert not wrong
    assert len(found) >= 150
