"""The real API server serves our CRDs, takes KAI's YAML as it is, and refuses what KAI's schemas refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cluster.admission_bed import admission, queue
from tests.cluster.testbed.admin import ApiError

YAML = Path(__file__).parent / "yaml"
CLUSTER_WIDE = {"Queue", "Topology", "SchedulingShard"}


def documents(name):
    return list(yaml.safe_load_all((YAML / name).read_text()))


def same(given, stored):
    """Whether all that was written is there as it was written."""
    if isinstance(given, dict):
        return all(same(value, stored.get(key)) for key, value in given.items())
    if isinstance(given, list):
        return len(given) <= len(stored) and all(map(same, given, stored))
    return given == stored


@pytest.fixture(scope="module")
def judged(kai_cluster):
    with admission(kai_cluster):
        yield kai_cluster


@pytest.mark.parametrize("name", sorted(path.name for path in YAML.glob("*.yaml")))
def test_yaml_of_kai_applies_as_it_is(judged, namespace, name):
    for document in documents(name):
        if document["kind"] not in CLUSTER_WIDE:
            document["metadata"]["namespace"] = namespace
        (stored,) = judged.apply(document)
        asked = {key: value for key, value in document.items() if key in {"metadata", "spec"}}
        if document["kind"] == "Pod":
            for container in asked["spec"].get("initContainers", ()):
                container.pop("env", None)
        assert same(asked, stored)
    judged.admin.delete(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups")


GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "pg"},
    "spec": {"queue": "default-queue"},
}
SHARD = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "s"}}
TOPOLOGY = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}}
HOST = "kubernetes.io/hostname"


def levels(*labels):
    return {**TOPOLOGY, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}


def group(**spec):
    return {**GROUP, "spec": {"queue": "q", **spec}}


def shard(**spec):
    return {**SHARD, "spec": spec}


REFUSED = {
    "a minimum below 0": (group(minMember=-1), "spec.minMember"),
    "another preemptibility": (group(preemptibility="semi"), "spec.preemptibility"),
    "a sub-group with capitals": (group(subGroups=[{"name": "A"}]), "spec.subGroups[0].name"),
    "a sub-group without a name": (group(subGroups=[{}]), "spec.subGroups[0].name"),
    "a quota in words": (queue("q", resources={"gpu": {"quota": "all"}}), "spec.resources.gpu"),
    "a subject without its kind": (queue("q", subjects=["ana"]), "spec.subjects[0]"),
    "a namespace with a slash": (queue("q", namespaces=["a/b"]), "spec.namespaces[0]"),
    "a topology without levels": (levels(), "spec.levels"),
    "seventeen levels": (levels(*(f"l{n}" for n in range(17))), "spec.levels"),
    "the same level twice": (levels("zone", "zone"), "each node label stands once"),
    "hosts above racks": (levels(HOST, "rack"), "can be the last level only"),
    "a label that is none": (levels("-zone"), "spec.levels[0].nodeLabel"),
    "a window in words": (
        shard(usageDBConfig={"clientType": "x", "usageParams": {"windowSize": "week"}}),
        "windowSize",
    ),
    "a budget for no action": (
        shard(scenarioSearchBudgets={"maxActionSearchDuration": {"dance": "1m"}}),
        "the keys are default, reclaim, preempt and consolidation",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_kai_refuses_is_refused_with_the_place(kai_cluster, namespace, case):
    wrong, says = REFUSED[case]
    if wrong["kind"] == "PodGroup":
        wrong = {**wrong, "metadata": {"name": "pg", "namespace": namespace}}
    with pytest.raises(ApiError) as caught:
        kai_cluster.admin.create(wrong)
    assert caught.value.status == 422
    assert says in caught.value.message


@pytest.mark.parametrize(
    "right",
    [
        group(minMember=0),
        group(minSubGroup=0, stalenessGracePeriod="-1s", preemptionDelay="10m"),
        shard(usageDBConfig={"clientType": "x", "usageParams": {"windowSize": "7d"}}),
        levels("zone", "rack", HOST),
        queue("q", resources={"gpu": {"quota": 0.5, "limit": -1}}),
    ],
    ids=lambda one: f"{one['kind']}",
)
def test_what_kai_takes_is_taken(kai_cluster, namespace, right):
    if right["kind"] == "PodGroup":
        right = {**right, "metadata": {"name": "pg", "namespace": namespace}}
    kai_cluster.admin.create(right)


def test_the_labels_of_a_topology_stay_and_its_aliases_change(kai_cluster, namespace):
    admin = kai_cluster.admin
    admin.create(levels("zone", "rack"))
    path = "/apis/kai.scheduler/v1alpha1/topologies/t"
    renamed = [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack", "alias": "r"}]
    admin.patch(path, {"spec": {"levels": renamed}})
    with pytest.raises(ApiError, match="never change"):
        admin.patch(path, {"spec": {"levels": [{"nodeLabel": "zone"}]}})


def test_a_status_is_a_matter_of_its_own(kai_cluster, namespace):
    admin = kai_cluster.admin
    admin.create(queue("counted"))
    path = "/apis/scheduling.run.ai/v2/queues/counted"
    admin.patch(path, {"status": {"allocated": {"cpu": "1"}}})
    assert "status" not in admin.get(path)
    admin.patch(f"{path}/status", {"status": {"allocated": {"nvidia.com/gpu": "1500m"}}})
    assert admin.get(path)["status"]["allocated"] == {"nvidia.com/gpu": "1500m"}


def test_fields_that_kai_dropped_are_ignored_as_kai_ignores_them(kai_cluster, namespace):
    old = {
        **group(parallelism=2, backoffLimit=3),
        "metadata": {"name": "o", "namespace": namespace},
    }
    assert kai_cluster.admin.create(old)["spec"] == {"queue": "q"}
