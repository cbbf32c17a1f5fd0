"""Late volumes and device claims: made ready before the bind, and taken back when it does not come to that."""

from __future__ import annotations

import pytest

from tests.cluster.binding import STORAGE, Bench, binder_config

CLAIMS = "/apis/resource.k8s.io/v1/namespaces"
SELECTED = "volume.kubernetes.io/selected-node"
VOLUMES = "/api/v1/persistentvolumes"


class Storage(Bench):
    """A bench with a storage class, volumes and claims of one test's own."""

    def __init__(self, cluster, namespace):
        super().__init__(cluster, namespace)
        self.claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self.device_claims = f"{CLAIMS}/{namespace}/resourceclaims"

    def late_class(self, provisioner):
        self.admin.post(
            STORAGE,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": self.namespace},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )

    def claim(self, name="data"):
        return self.admin.post(
            self.claims,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "storageClassName": self.namespace,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )

    def volume(self, name, node, claim=None):
        """Make a volume that lives on one node; for `claim`, as a provisioner does."""
        on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.namespace,
            "local": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        }
        if claim is not None:
            meta = claim["metadata"]
            spec["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            }
        self.admin.post(
            VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{self.namespace}-{name}"},
                "spec": spec,
            },
        )

    def pod_with_data(self, name="p", **parts):
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        return self.pod(name, volumes=[volume], **parts)

    def device_claim(self, name="gpu"):
        request = {"name": "one", "exactly": {"deviceClassName": self.namespace, "count": 1}}
        return self.admin.post(
            self.device_claims,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"devices": {"requests": [request]}},
            },
        )

    def grant(self, node, device="gpu-0"):
        """Return what a decision gives to the claim that the pod calls "gpu"."""
        result = {"request": "one", "driver": "gpu.example.com", "pool": node, "device": device}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        return [
            {
                "name": "gpu",
                "allocation": {
                    "devices": {"results": [result]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
                },
            }
        ]

    def clean(self):
        self.admin.delete(f"{STORAGE}/{self.namespace}")
        for one in self.admin.list(VOLUMES):
            if one["metadata"]["name"].startswith(f"{self.namespace}-"):
                self.admin.patch(
                    f"{VOLUMES}/{one['metadata']['name']}", {"metadata": {"finalizers": None}}
                )
                self.admin.delete(f"{VOLUMES}/{one['metadata']['name']}")


@pytest.fixture
def storage(kai_cluster, namespace):
    found = Storage(kai_cluster, namespace)
    yield found
    found.clean()


def with_claim(pod_claim="gpu", claim="gpu"):
    return {"resourceClaims": [{"name": pod_claim, "resourceClaimName": claim}]}


# -- volumes -------------------------------------------------------------------------------------------


def test_a_late_claim_gets_the_volume_of_its_node(storage):
    storage.cluster.nodes.add("n", count=2)
    storage.late_class("kubernetes.io/no-provisioner")
    storage.volume("far", "n-0")
    storage.volume("near", "n-1")
    storage.claim()
    pod = storage.pod_with_data()
    with storage.binder():
        storage.request(pod, "n-1")
        storage.bound("p")
    claim = storage.admin.get(f"{storage.claims}/data")
    assert claim["spec"]["volumeName"] == f"{storage.namespace}-near"
    assert claim["status"]["phase"] == "Bound"


def test_the_provisioner_is_told_the_node_and_waited_for(storage):
    storage.cluster.nodes.add("n")
    storage.late_class("csi.example.com")
    storage.claim()
    pod = storage.pod_with_data()
    with storage.binder():
        storage.request(pod, "n")
        claim = storage.admin.wait_for_one(
            f"{storage.claims}/data",
            lambda one: one["metadata"].get("annotations", {}).get(SELECTED) == "n",
            "the provisioner is told the node",
        )
        assert not storage.admin.get(f"{storage.pods}/p")["spec"].get("nodeName")
        storage.volume("made", "n", claim)
        storage.bound("p")


def test_a_node_without_a_volume_is_refused_and_nothing_is_left(storage):
    storage.cluster.nodes.add("n", count=2)
    storage.late_class("kubernetes.io/no-provisioner")
    storage.volume("far", "n-0")
    storage.claim()
    pod = storage.pod_with_data()
    with storage.binder():
        storage.request(pod, "n-1")
        status = storage.failed("p")
    assert "is free on node n-1 for data" in status["reason"]
    far = storage.admin.get(f"{VOLUMES}/{storage.namespace}-far")
    assert far["spec"].get("claimRef") is None


def test_a_provisioner_that_is_too_slow_is_a_failure_and_its_order_is_taken_back(storage):
    storage.admin.apply(binder_config(volumeBindingTimeoutSeconds=1))
    storage.cluster.nodes.add("n")
    storage.late_class("csi.example.com")
    storage.claim()
    pod = storage.pod_with_data()
    with storage.binder():
        storage.request(pod, "n")
        status = storage.failed("p")
    assert "was not ready within 1 s" in status["reason"]
    claim = storage.admin.get(f"{storage.claims}/data")
    assert SELECTED not in claim["metadata"].get("annotations", {})


def test_a_provisioner_that_gives_up_is_heard(storage):
    """It takes the node off the claim: the pod must be decided upon anew, not after two minutes."""
    storage.cluster.nodes.add("n")
    storage.late_class("csi.example.com")
    storage.claim()
    pod = storage.pod_with_data()
    with storage.binder():
        storage.request(pod, "n")
        path = f"{storage.claims}/data"
        storage.admin.wait_for_one(
            path, lambda one: SELECTED in one["metadata"].get("annotations", {}), "told"
        )
        storage.admin.patch(path, {"metadata": {"annotations": {SELECTED: None}}})
        status = storage.failed("p")
    assert "could not make a volume for data on node n" in status["reason"]


def test_a_withdrawn_decision_is_taken_back_while_it_waits(storage):
    """The scheduler deletes a request whose node vanished, or that somebody more urgent replaced."""
    storage.cluster.nodes.add("n")
    storage.late_class("csi.example.com")
    storage.claim()
    storage.device_claim()
    pod = storage.pod_with_data(**with_claim())
    path = f"{storage.claims}/data"
    with storage.binder():
        storage.request(pod, "n", resourceClaimAllocations=storage.grant("n"))
        storage.admin.wait_for_one(
            path, lambda one: SELECTED in one["metadata"].get("annotations", {}), "told"
        )
        storage.admin.delete(f"{storage.requests}/p")
        storage.admin.wait_for_one(
            path, lambda one: SELECTED not in one["metadata"].get("annotations", {}), "taken back"
        )


# -- device claims ---------------------------------------------------------------------------------------


def test_a_claim_gets_its_devices_and_the_pod(storage):
    storage.cluster.nodes.add("n")
    storage.device_claim()
    pod = storage.pod("p", **with_claim())
    with storage.binder():
        storage.request(pod, "n", resourceClaimAllocations=storage.grant("n"))
        storage.bound("p")
    claim = storage.admin.get(f"{storage.device_claims}/gpu")
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert [user["uid"] for user in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
    assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


def test_claims_are_rolled_back_when_a_later_step_fails(storage):
    """F2: KAI left the pod and its devices in the claim. Here the volume comes after... and is not there."""
    storage.cluster.nodes.add("n", gpus=1)
    storage.device_claim()
    annotations = {"gpu-fraction": "0.50", "runai/shared-gpu-configmap": "p-abc1234-shared-gpu"}
    pod = storage.pod("p", annotations=annotations, **with_claim())
    blocked = f"/api/v1/namespaces/{storage.namespace}/resourcequotas/none"
    storage.admin.post(
        blocked.rpartition("/")[0],
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": storage.namespace},
            "spec": {"hard": {"count/configmaps": "0"}},
        },
    )
    storage.admin.wait_for_one(
        blocked, lambda one: "hard" in one.get("status", {}), "quota is known"
    )
    with storage.binder():
        storage.give(pod, "n", "g", resourceClaimAllocations=storage.grant("n"))
        status = storage.failed("p")
        storage.wait_for_reservations(set())
    assert "exceeded quota" in status["reason"]
    claim = storage.admin.get(f"{storage.device_claims}/gpu")
    assert not claim.get("status", {}).get("reservedFor")
    assert not claim.get("status", {}).get("allocation")
    assert "runai-gpu-group" not in storage.admin.get(f"{storage.pods}/p")["metadata"].get(
        "labels", {}
    )


def test_a_device_that_another_claim_holds_meanwhile_is_not_given_twice(storage):
    storage.cluster.nodes.add("n")
    storage.device_claim("first")
    storage.device_claim("second")
    with storage.binder():
        one = storage.pod("one", **with_claim(claim="first"))
        storage.request(one, "n", resourceClaimAllocations=storage.grant("n"))
        storage.bound("one")
        two = storage.pod("two", **with_claim(claim="second"))
        storage.request(two, "n", resourceClaimAllocations=storage.grant("n"))
        status = storage.failed("two")
    assert f"belongs to the claim {storage.namespace}/first" in status["reason"]
    assert (
        not storage.admin.get(f"{storage.device_claims}/second").get("status", {}).get("allocation")
    )


def test_two_pods_share_a_claim_and_a_third_can_not_take_it_elsewhere(storage):
    storage.cluster.nodes.add("n", count=2)
    storage.device_claim()
    with storage.binder():
        for name in ("one", "two"):
            pod = storage.pod(name, **with_claim())
            storage.request(pod, "n-0", resourceClaimAllocations=storage.grant("n-0"))
            storage.bound(name)
        pod = storage.pod("three", **with_claim())
        storage.request(pod, "n-1", resourceClaimAllocations=storage.grant("n-1"))
        status = storage.failed("three")
    assert "are not on node n-1" in status["reason"]
    users = storage.admin.get(f"{storage.device_claims}/gpu")["status"]["reservedFor"]
    assert {user["name"] for user in users} == {"one", "two"}
