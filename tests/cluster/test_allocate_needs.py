"""What a pod needs beside room, on a real API server: ConfigMaps and volumes. IDs as in COVERAGE.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import Stage, scheduler
from tests.cluster.testbed.cluster import Cluster


@pytest.fixture(scope="module", autouse=True)
def running(kai_cluster: Cluster) -> Iterator[None]:
    with scheduler(kai_cluster):
        yield


@pytest.fixture
def stage(kai_cluster: Cluster, namespace: str) -> Stage:
    made = Stage(kai_cluster, namespace)
    kai_cluster.nodes.add("n", count=2, gpus=1)
    return made


def create(
    stage: Stage, kind: str, name: str, *, version: str = "v1", namespaced: bool = True, **body: Any
) -> None:
    meta = {"name": name, **({"namespace": stage.namespace} if namespaced else {})}
    stage.admin.create({"apiVersion": version, "kind": kind, "metadata": meta, **body})


def test_alc_20_21_config_maps(stage: Stage) -> None:
    volume = {"name": "v", "configMap": {"name": "late"}}
    stage.alone("p", gpus=1, volumes=[volume])
    assert stage.settled() == {}
    create(stage, "ConfigMap", "late")
    stage.bound("p")


def claimed(stage: Stage, claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


def wants(storage_class: str, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": resources,
            **more,
        }
    }


def test_alc_24_an_unknown_storage_class(stage: Stage) -> None:
    create(stage, "PersistentVolumeClaim", "c", **wants("no-such-class"))
    stage.alone("p", gpus=1, **claimed(stage, "c"))
    assert stage.settled() == {}
    assert stage.admin.list(stage.requests) == []


def test_alc_22_a_bound_volume_draws_its_pod(stage: Stage) -> None:
    """The claim is bound by the cluster's own controller; the volume is on one node only."""
    terms = [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n-1"]}
            ]
        }
    ]
    volume = f"{stage.namespace}-volume"
    create(
        stage,
        "PersistentVolume",
        volume,
        namespaced=False,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "hostPath": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    )
    try:
        stage.alone("p", gpus=1, **claimed(stage, "c"))
        assert stage.settled() == {}
        create(stage, "PersistentVolumeClaim", "c", **wants("", volumeName=volume))
        assert stage.request("p")["selectedNode"] == "n-1"
    finally:
        stage.admin.delete(f"/api/v1/persistentvolumes/{volume}")
