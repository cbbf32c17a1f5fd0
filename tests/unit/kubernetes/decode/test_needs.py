"""What stands in a waiting pod's way beside room: ConfigMaps and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.decode.needs import (
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from scheduler_service.model.plan import Bind
from tests.unit.kubernetes.decode.test_world import Cluster
from tests.unit.kubernetes.objects import group, node, pod, queue, raw

CLAIMED = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.put("nodes", node("n", labels={"zone": "a"}))
    made.put("nodes", node("m", labels={"zone": "b"}))
    made.put("queues", queue())
    made.put("groups", group())
    return made


def places(cluster: Cluster) -> list[str]:
    return [op.node for op in cluster.plan().operations() if isinstance(op, Bind)]


def why(cluster: Cluster) -> str:
    (waiting,) = cluster.plan().waiting
    return " ".join(str(reason) for reason in waiting.reasons)


REFERENCES: list[dict[str, Any]] = [
    {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}]},
    {"containers": [{"name": "x", "envFrom": [{"configMapRef": {"name": "c"}}]}]},
    {
        "containers": [
            {
                "name": "x",
                "env": [{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
            }
        ]
    },
]


@pytest.mark.parametrize("spec", REFERENCES)
def test_a_pod_waits_for_the_config_maps_it_can_not_start_without(
    cluster: Cluster, spec: dict[str, Any]
) -> None:
    cluster.put("pods", pod(**spec))
    assert places(cluster) == []
    assert "ConfigMap c does not exist" in why(cluster)
    cluster.world.needs.config_maps["a/c"] = True
    cluster.world.need_changed("config a/c")
    assert len(places(cluster)) == 1
    cluster.check()


@pytest.mark.parametrize(
    ("spec", "notes"),
    [
        ({"volumes": [{"name": "v", "configMap": {"name": "c", "optional": True}}]}, {}),
        ({"volumes": [{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}]}, {}),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "p-shared-gpu-0"}}]},
            {"runai/shared-gpu-configmap": "p-shared-gpu"},
        ),
    ],
)
def test_what_may_be_missing_or_comes_by_itself_is_not_waited_for(
    cluster: Cluster, spec: dict[str, Any], notes: dict[str, str]
) -> None:
    cluster.put("pods", pod(annotations=notes, **spec))
    assert len(places(cluster)) == 1


class Volumes:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.stores = cluster, cluster.stores

    def claim(self, **more: Any) -> None:
        meta = {"name": "c", "namespace": "a"}
        body = {"metadata": meta, "spec": more.get("spec", {}), "status": more.get("status", {})}
        self.stores.volume_claims["a/c"] = decode_volume_claim(raw(body))
        self.cluster.world.need_changed("claim a/c")

    def storage_class(self, mode: str) -> None:
        body = {"metadata": {"name": "fast"}, "volumeBindingMode": mode}
        self.stores.storage_classes["fast"] = decode_storage_class(raw(body))
        self.cluster.world.need_changed("class fast")


def test_a_claim_from_missing_over_unbound_to_bound(cluster: Cluster) -> None:
    volumes = Volumes(cluster)
    cluster.put("pods", pod(volumes=CLAIMED))
    assert "volume claim c does not exist" in why(cluster)
    volumes.claim(spec={"storageClassName": "fast"})
    assert "storage class fast does not exist" in why(cluster)
    volumes.storage_class("Immediate")
    assert "volume claim c is not bound yet" in why(cluster)
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    body = {
        "metadata": {"name": "pv"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    }
    cluster.stores.volumes["pv"] = decode_volume(raw(body))
    volumes.claim(spec={"storageClassName": "fast", "volumeName": "pv"}, status={"phase": "Bound"})
    assert places(cluster) == ["m"]
    cluster.check()


def test_a_claim_that_is_bound_with_its_first_consumer_is_not_waited_for(cluster: Cluster) -> None:
    volumes = Volumes(cluster)
    volumes.claim(spec={"storageClassName": "fast"})
    volumes.storage_class("WaitForFirstConsumer")
    cluster.put("pods", pod(volumes=CLAIMED))
    assert len(places(cluster)) == 1


def test_whoever_waits_no_more_is_not_remembered(cluster: Cluster) -> None:
    cluster.put("pods", pod(volumes=CLAIMED))
    cluster.turn()
    assert cluster.world.needs.wanting
    cluster.drop("pods", "a/p")
    cluster.turn()
    assert not cluster.world.needs.wanting
    assert cluster.ledger.vetoes == {}
