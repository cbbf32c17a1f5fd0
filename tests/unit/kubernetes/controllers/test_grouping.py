"""Groups and memberships are written once, from what is there, and people's own words stay."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from scheduler_service.backends.kubernetes.controllers.grouping import Choices, Ground, Grouping
from scheduler_service.backends.kubernetes.controllers.memberships import Memberships
from scheduler_service.backends.kubernetes.controllers.recorder import Recorder
from scheduler_service.backends.kubernetes.decode.groups import decode_pod_group
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.stores import Stores
from scheduler_service.backends.kubernetes.encode.binding import binding
from scheduler_service.backends.kubernetes.encode.pod_group import as_table, change, difference
from scheduler_service.backends.kubernetes.errors import Conflict
from scheduler_service.backends.kubernetes.lull import Lull
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod
from scheduler_service.grouping.owners import Answer, Reference, Unread
from scheduler_service.grouping.settings import GroupingSettings
from tests.unit.kubernetes import objects

Table = dict[str, Any]
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
KEY = "a/pg-j-uid-j"


class Api:
    """Takes writes as the API does: a patch for another version is refused."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.groups: dict[str, Table] = {}
        self.writes: list[tuple[str, str, Table]] = []
        self.version = 10
        self.lull = Lull()

    async def later(self, _method: str, path: str, body: Table) -> None:
        await self.post(path, body)

    async def post(self, path: str, body: Table, *, want_body: bool = False) -> bytes:
        assert want_body or "events" in path
        self.writes.append(("POST", path, body))
        if "events" in path:
            return b"null"
        meta = body["metadata"]
        return self._stored({**body, "metadata": {**meta, "uid": "uid-g"}})

    async def patch(self, path: str, body: Table, *, want_body: bool = False) -> bytes:
        self.writes.append(("PATCH", path, body))
        if not want_body:
            return b"null"
        key = f"a/{path.rpartition('/')[2]}"
        if body["metadata"]["resourceVersion"] != self.groups[key]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "another version")
        return self._stored(merge(self.groups[key], body))

    def _stored(self, body: Table) -> bytes:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.groups[f"a/{body['metadata']['name']}"] = body
        return objects.raw(body)

    def observe(self, raw: bytes) -> None:
        found = decode_pod_group(raw)
        self.stores.groups[found.metadata.key] = found


def merge(old: Table, patch: Table) -> Table:
    found = dict(old)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = merge(found.get(key) or {}, value)
        else:
            found[key] = value
    return found


class OwnersByHand:
    """Owners that the test sets."""

    def __init__(self) -> None:
        self.job: Answer = {}
        self.fetched = 0
        self._known: Answer | None = None

    def reader(self, _pod: str) -> Any:
        def read(_reference: Reference) -> Answer:
            return Unread.NOT_YET if self._known is None else self._known

        return read

    async def fetch(self, _reference: Reference) -> None:
        self.fetched += 1
        self._known = self.job

    def doubt(self, _pod: str) -> None:
        self._known = None

    forget = doubt


def a_job(*, suspend: bool = False, **labels: str) -> Table:
    meta = {"name": "j", "namespace": "a", "uid": "uid-j", "labels": labels}
    return {"metadata": meta, "spec": {"suspend": suspend}}


def pod(name: str = "p", **parts: Any) -> RawPod:
    raw = objects.pod(name, group="", **parts)
    raw["metadata"]["ownerReferences"] = [OWNER]
    return decode_pod(objects.raw(raw))


class FollowedPods:
    """Pods as a reflector knows them, with what we know besides."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.believed: dict[str, str] = {}

    def believe(self, key: str, uid: str, amend: Any) -> None:
        self.stores.pods[key] = amend(self.stores.pods[key])
        self.believed[key] = uid

    def is_believed(self, key: str) -> bool:
        return key in self.believed


class Bed:
    def __init__(self, *pods: RawPod) -> None:
        self.stores = Stores(pods={each.key: each for each in pods})
        self.api = Api(self.stores)
        self.pods = FollowedPods(self.stores)
        self.starting: set[str] = set()
        self.owners = OwnersByHand()
        owners: Any = self.owners
        writes: Any = self.api
        self.recorder = Recorder(writes, "test")
        self.grouping = Grouping(
            owners,
            writes,
            self.recorder,
            ground=Ground(
                stores=self.stores,
                members={},
                namespaces={},
                is_ours=lambda _pod: True,
                observe_group=self.api.observe,
                memberships=Memberships(self.pods, lambda pod: pod.key in self.starting),
            ),
            choices=Choices(GroupingSettings()),
        )

    def look(self, *keys: str) -> list[tuple[str, str]]:
        """Look at pods and return what was written for it."""
        self.api.writes.clear()

        async def story() -> None:
            for key in keys or tuple(self.stores.pods):
                assert await self.grouping._look(key)

        asyncio.run(story())
        return [(method, path.rpartition("/")[2]) for method, path, _ in self.api.writes]


def test_a_gang_costs_one_group_and_its_pods_are_told_with_their_bindings() -> None:
    bed = Bed(pod("p"), pod("q"))
    bed.owners.job = a_job()
    assert bed.look() == [("POST", "podgroups")]
    assert bed.owners.fetched == 1
    assert [group_key(each) for each in bed.stores.pods.values()] == [KEY, KEY]
    bed.starting = {"a/p"}
    assert bed.look() == [("PATCH", "q")]  # it waits: nobody else will tell it
    assert bed.api.writes[0][2]["metadata"] == {
        "uid": "uid-q",
        "annotations": {"pod-group-name": "pg-j-uid-j"},
    }
    notes = binding(bed.stores.pods["a/p"], "n0")["metadata"]["annotations"]
    assert notes["pod-group-name"] == "pg-j-uid-j"


def test_a_pod_that_somebody_else_bound_is_told_its_group() -> None:
    bed = Bed(pod("p", node="n0"))
    bed.owners.job = a_job()
    assert bed.look() == [("POST", "podgroups"), ("PATCH", "p")]


@pytest.mark.parametrize(
    ("parts", "is_untold", "is_looked_at"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"annotations": {"pod-group-name": "pg-other"}}, False, True),
        ({"labels": {"kai.scheduler/queue": "b"}}, False, True),
    ],
)
def test_a_binding_that_tells_a_pod_its_group_is_no_reason_to_look_again(
    parts: Table, *, is_untold: bool, is_looked_at: bool
) -> None:
    known = {"pod-group-name": "pg-j-uid-j"}
    old = pod(annotations=known)
    bound = {"annotations": known, **parts}
    bound["annotations"] = {**bound["annotations"], "received-resource-type": "Regular"}
    new = pod(node="n0", **bound)
    bed = Bed(new)
    if is_untold:
        bed.pods.believed["a/p"] = "uid-p"
    bed.grouping.pod_changed(old, new)
    assert (bed.grouping.work._next() == "a/p") is is_looked_at


def test_what_a_network_plug_in_notes_on_a_lone_pod_costs_no_write_of_its_group() -> None:
    raw = objects.pod("p", group="")
    bed = Bed(decode_pod(objects.raw(raw)))
    assert bed.look() == [("POST", "podgroups")]
    (made,) = bed.api.groups.values()
    notes = {"pod-group-name": made["metadata"]["name"], "cni.example/address": "10.0.0.1"}
    raw["metadata"]["annotations"] = {**notes, "kai.scheduler/topology": "t"}
    bed.stores.pods["a/p"] = decode_pod(objects.raw(raw))
    bed.pods.believed.clear()
    bed.look()
    ((patch),) = [body for _, _, body in bed.api.writes]
    assert patch["metadata"]["annotations"] == {"kai.scheduler/topology": "t"}


def test_a_suspended_owner_releases_its_group_and_takes_it_back() -> None:
    bed = Bed(pod())
    bed.owners.job = a_job()
    bed.look()
    for suspended, told in ((True, "suspended"), (False, None)):
        bed.owners.doubt("")
        bed.owners.job = a_job(suspend=suspended)
        assert ("PATCH", "pg-j-uid-j") in bed.look()
        notes = bed.api.groups[KEY]["metadata"]["annotations"]
        assert notes.get("kai.scheduler/released") == told


def test_what_people_set_stays_and_only_differences_are_written() -> None:
    bed = Bed(pod())
    bed.owners.job = a_job()
    bed.look()
    group = bed.api.groups[KEY]
    group["spec"] |= {"queue": "mine", "markUnschedulable": False}
    bed.api.observe(objects.raw(group))
    bed.owners.doubt("")
    bed.owners.job = a_job(team="x")
    bed.look()
    ((patch),) = [body for _, path, body in bed.api.writes if path.endswith("pg-j-uid-j")]
    assert patch == {
        "metadata": {
            "labels": {"team": "x"},
            "resourceVersion": group["metadata"]["resourceVersion"],
        }
    }
    assert bed.api.groups[KEY]["spec"]["queue"] == "mine"
    assert bed.api.groups[KEY]["spec"]["markUnschedulable"] is False


def test_who_comes_second_looks_again() -> None:
    bed = Bed(pod())
    bed.owners.job = a_job()
    bed.look()
    bed.api.groups[KEY]["metadata"]["resourceVersion"] = "99"  # not told to us yet
    bed.owners.doubt("")
    bed.owners.job = a_job(team="x")
    bed.look()
    assert "team" not in bed.api.groups[KEY]["metadata"]["labels"]
    bed.api.observe(objects.raw(bed.api.groups[KEY]))
    bed.look()
    assert bed.api.groups[KEY]["metadata"]["labels"]["team"] == "x"


def test_a_pod_whose_owner_is_gone_is_not_placed() -> None:
    bed = Bed(pod())
    bed.owners.job = Unread.ABSENT
    assert bed.look() == [("PATCH", "p")]
    notes = bed.api.writes[0][2]["metadata"]["annotations"]
    assert notes == {"kai.scheduler/released": "deleted"}
    assert bed.owners.fetched == 2  # what was remembered could have been of an earlier object


def test_pods_that_end_or_leave_are_left_alone() -> None:
    bed = Bed(pod("p", phase="Succeeded"), pod("q", deleted=objects.MADE))
    assert bed.look() == []
    assert bed.owners.fetched == 0


def test_an_object_comes_back_from_the_api_as_it_was() -> None:
    spec: Table = {
        "queue": "q",
        "minSubGroup": 1,
        "priorityClassName": "train",
        "preemptibility": "preemptible",
        "preemptionDelay": "10m",
        "stalenessGracePeriod": "-1s",
        "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
        "subGroups": [
            {"name": "top", "minSubGroup": 1},
            {"name": "leaf", "parent": "top", "minMember": 0},
        ],
    }
    raw = objects.group(**spec)
    raw["metadata"] |= {"ownerReferences": [OWNER], "resourceVersion": "3"}
    table = as_table(decode_pod_group(objects.raw(raw)))
    assert table["spec"] == spec
    assert table["metadata"]["ownerReferences"] == [OWNER]


def test_a_difference_takes_away_changes_and_adds() -> None:
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}
    new = {"b": {"c": 3, "d": 2}, "e": [1, 2], "f": 4}
    assert merge(old, difference(old, new)) == new
    assert difference(old, old) == {}
    versioned = {"metadata": {"resourceVersion": "3"}, **old}
    patch = change(versioned, {**versioned, "a": 2})
    assert json.loads(json.dumps(patch)) == {"a": 2, "metadata": {"resourceVersion": "3"}}
