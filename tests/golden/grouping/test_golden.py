"""Owner and pod in, pod group out: for each kind of workload as its operator writes it."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_service.grouping.description import Grouped, Ungroupable
from scheduler_service.grouping.grouper import group_pod
from scheduler_service.grouping.manifest import manifest, merged, pod_patch
from scheduler_service.grouping.own_rules import NO_RULES, read_own_rules
from scheduler_service.grouping.owners import Answer, OwnerGone, Reference, Unread
from scheduler_service.grouping.settings import GroupingSettings, read_kind_defaults
from scheduler_service.grouping.surroundings import KnownObjects

FOLDER = Path(__file__).parent
FILES = {
    path.stem: yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    for path in sorted((FOLDER / "cases").glob("*.yaml"))
}
CASES = [(stem, name) for stem, cases in FILES.items() for name in cases]
CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
    }
    for name in ("train", "build-preemptible", "build", "inference", "urgent")
]


class Readable(yaml.SafeDumper):
    """Writes texts of several lines as people would."""

    def text(self, data: str) -> yaml.ScalarNode:
        """Return a block where there are lines."""
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


Readable.add_representer(str, Readable.text)


class Cluster:
    """The objects of a case, and the pod groups that our answers make of them."""

    def __init__(self, case: dict[str, Any]) -> None:
        known: dict[str, dict[str, Any]] = {}
        self.objects = [filled(each, known) for each in case.get("objects", [])]
        self.pods = [filled({"kind": "Pod", **each}, known) for each in case["pods"]]
        self.groups: dict[str, dict[str, Any]] = {
            each["metadata"]["name"]: each for each in self.objects if _is_group(each)
        }
        chosen = dict(case.get("settings", {}))
        chosen["kind_defaults"] = read_kind_defaults(case.get("kindDefaults", {}))
        self.settings = GroupingSettings(**chosen)
        self.rules = read_own_rules(case["rules"]) if "rules" in case else NO_RULES
        self.forbidden = set(case.get("forbidden", []))

    def around(self) -> KnownObjects:
        """Return what grouping sees now."""
        others = [each for each in self.objects if not _is_group(each)]
        return KnownObjects(
            [*CLASSES, *others, *self.pods, *self.groups.values()], is_complete=True
        )

    def answer(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Group one pod, carry the answer out, and return it in a few words."""
        outcome = group_pod(
            pod, Forbidding(self.around(), self.forbidden), settings=self.settings, rules=self.rules
        )
        if isinstance(outcome, Grouped):
            return self.apply(pod, outcome)
        if isinstance(outcome, Ungroupable):
            return {"refused": outcome.sentence}
        return {"gone": str(outcome)} if isinstance(outcome, OwnerGone) else {"left": str(outcome)}

    def apply(self, pod: dict[str, Any], grouped: Grouped) -> dict[str, Any]:
        """Write pod group and pod as a cluster would."""
        name = grouped.group.name
        if name not in self.groups:
            self.groups[name] = manifest(grouped.group)
        elif (new := merged(grouped.group, self.groups[name], self.settings)) is not None:
            self.groups[name] = new
        patch = pod_patch(pod, grouped) or {"metadata": {}}
        for field, words in patch["metadata"].items():
            target = pod["metadata"].setdefault(field, {})
            target.update(words)
            pod["metadata"][field] = {key: word for key, word in target.items() if word is not None}
        told: dict[str, Any] = {"group": name}
        if grouped.leaf:
            told["subGroup"] = grouped.leaf
        if grouped.released:
            told["released"] = str(grouped.released)
        if grouped.notes:
            told["notes"] = list(grouped.notes)
        return told


def _is_group(one: dict[str, Any]) -> bool:
    return one["kind"] == "PodGroup" and one["apiVersion"].startswith("scheduling.run.ai")


class Forbidding:
    """Surroundings in which some kinds may not be read."""

    def __init__(self, known: KnownObjects, kinds: set[str]) -> None:
        self.known = known
        self.kinds = kinds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.known, name)

    def read(self, reference: Reference) -> Answer:
        if reference.kind in self.kinds:
            return Unread.FORBIDDEN
        return self.known.read(reference)


def filled(short: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the object in full, and remember it for those that it owns."""
    full = copy.deepcopy(short)
    metadata = full["metadata"]
    name = metadata["name"]
    full.setdefault("apiVersion", "v1")
    if full["kind"] != "Namespace":
        metadata.setdefault("namespace", "ml")
    taken = {each["metadata"]["uid"] for each in known.values()}
    uid = f"uid-{name}"
    metadata.setdefault("uid", f"{uid}-{full['kind'].lower()}" if uid in taken else uid)
    if full["kind"] == "Pod":
        full.setdefault("spec", {}).setdefault("schedulerName", "kai-scheduler")
    if owner := full.pop("ownedBy", None):
        above = known[owner]
        metadata["ownerReferences"] = [
            {
                "apiVersion": above["apiVersion"],
                "kind": above["kind"],
                "name": above["metadata"]["name"],
                "uid": above["metadata"]["uid"],
                "controller": True,
            }
        ]
    known[f"{full['kind']}/{name}"] = full
    return full


def answers(stem: str, name: str) -> dict[str, Any]:
    """Return what a case leads to, after checking that a second look changes nothing."""
    cluster = Cluster(FILES[stem][name])
    told = {pod["metadata"]["name"]: cluster.answer(pod) for pod in cluster.pods}
    groups, pods = copy.deepcopy(cluster.groups), copy.deepcopy(cluster.pods)
    again = {pod["metadata"]["name"]: cluster.answer(pod) for pod in cluster.pods}
    assert (again, cluster.groups, cluster.pods) == (told, groups, pods)
    return {"pods": told, "podGroups": list(cluster.groups.values())}


@cache
def expected_of(stem: str) -> dict[str, Any]:
    """Return what the cases of a kind led to when somebody last looked."""
    path = FOLDER / "expected" / f"{stem}.yaml"
    if not path.exists():
        return {}
    found: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return found


@pytest.mark.parametrize(("stem", "name"), CASES)
def test_workload_becomes_its_pod_group(
    stem: str, name: str, request: pytest.FixtureRequest
) -> None:
    """Each kind of workload gets the group that its operator's objects ask for."""
    found = answers(stem, name)
    expected = expected_of(stem)
    if request.config.getoption("--update-golden", default=False):
        expected[name] = found
        kept = {case: expected[case] for case in FILES[stem] if case in expected}
        text = yaml.dump(kept, Dumper=Readable, sort_keys=False, allow_unicode=True, width=110)
        (FOLDER / "expected" / f"{stem}.yaml").write_text(text)
    assert found == expected[name]


def test_no_expectation_is_left_over() -> None:
    """A case that was renamed must not leave its old answer behind, unread."""
    stems = {path.stem for path in (FOLDER / "expected").glob("*.yaml")}
    assert {stem: set(expected_of(stem)) for stem in stems} == {
        stem: set(cases) for stem, cases in FILES.items()
    }


@pytest.mark.parametrize(("stem", "name"), CASES)
def test_pod_group_is_one_that_kai_admits(stem: str, name: str) -> None:
    """KAI's webhook refuses pod groups of a wrong shape: ours must never be among them."""
    for group in answers(stem, name)["podGroups"]:
        assert admission_faults(group["spec"]) == []


def admission_faults(spec: dict[str, Any]) -> list[str]:
    """Return what the webhook would say: min fields, parents, names, counts."""
    parts = spec.get("subGroups", [])
    names = [part["name"] for part in parts]
    children = {
        parent: [p["name"] for p in parts if p.get("parent") == parent] for parent in (None, *names)
    }
    faults = [] if ("minMember" in spec) != ("minSubGroup" in spec) else ["root: min fields"]
    faults += [f"{name} twice" for name in names if names.count(name) > 1]
    for part in parts:
        is_leaf = not children[part["name"]]
        if ("minMember" in part) != is_leaf or ("minSubGroup" in part) == is_leaf:
            faults.append(f"{part['name']}: min fields")
        if part.get("parent") not in children:
            faults.append(f"{part['name']}: no parent")
        if part.get("minSubGroup", 0) > len(children[part["name"]]):
            faults.append(f"{part['name']}: too few children")
    if spec.get("minSubGroup", 0) > len(children[None]):
        faults.append("root: too few children")
    return faults
