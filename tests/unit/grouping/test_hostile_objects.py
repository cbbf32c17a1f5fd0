"""Whatever stands in an owner or a pod, the answer is an outcome, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_service.grouping.description import Grouped, Needs, Ungroupable, Untouched
from scheduler_service.grouping.grouper import group_pod
from scheduler_service.grouping.manifest import manifest, pod_patch
from scheduler_service.grouping.owners import OwnerGone
from scheduler_service.grouping.surroundings import KnownObjects
from tests.golden.grouping.test_golden import FILES, Cluster

OUTCOMES = (Grouped, Needs, OwnerGone, Ungroupable, Untouched)
JUNK = st.sampled_from([None, "", "x" * 300, -1, 2**70, 1.5, True, [], {}, [None], {"a": [{}]}])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value inside, its own included."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [path, *(place for key, each in inside for place in places(each, (*path, key)))]


def spoilt(value: Any, place: tuple[Any, ...], junk: Any) -> Any:
    """Return a copy with junk at one place."""
    if not place:
        return junk
    changed = copy.copy(value)
    changed[place[0]] = spoilt(value[place[0]], place[1:], junk)
    return changed


@pytest.mark.parametrize("stem", sorted(FILES))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_spoilt_object_has_an_outcome(stem: str, data: st.DataObject) -> None:
    """An operator of another version, or a person with kubectl, writes what nobody foresaw."""
    case = FILES[stem][data.draw(st.sampled_from(sorted(FILES[stem])))]
    cluster = Cluster(case)
    things = [*cluster.objects, *cluster.pods]
    number = data.draw(st.integers(0, len(things) - 1))
    place = data.draw(st.sampled_from([p for p in places(things[number]) if len(p) > 1]))
    things[number] = spoilt(things[number], place, data.draw(JUNK))
    pods = things[len(cluster.objects) :]
    known = KnownObjects(things, is_complete=True)
    for pod in pods:
        outcome = group_pod(pod, known, rules=cluster.rules)
        assert isinstance(outcome, OUTCOMES)
        if isinstance(outcome, Grouped):
            yaml.safe_dump(manifest(outcome.group))
            pod_patch(pod, outcome)


def test_cases_are_there() -> None:
    """The law above would hold for an empty folder too."""
    assert len(list((Path(__file__).parents[2] / "golden/grouping/cases").glob("*.yaml"))) > 8
