"""Which existing volume serves a late claim on a node."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.backends.kubernetes.binder.pods import volume_claims
from scheduler_service.backends.kubernetes.binder.volume_rules import (
    claim_of,
    fits_node,
    matching_volume,
    promise,
    select_node,
    unpromise,
    volume_of,
)
from scheduler_service.backends.kubernetes.objects import decode_pod


def volume(name="pv", size="10Gi", node=None, **spec):
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]}
            ]
        }
    }
    body = {
        "metadata": {"name": name, "resourceVersion": "7", "labels": {"kind": "fast"}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            **({"nodeAffinity": affinity} if node else {}),
            **spec,
        },
        "status": {"phase": "Available"},
    }
    return volume_of(msgspec.json.encode(body))


def claim(**spec):
    body = {
        "metadata": {"name": "data", "namespace": "ns", "uid": "c-1", "resourceVersion": "3"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}},
            **spec,
        },
    }
    return claim_of(msgspec.json.encode(body))


def chosen(wanted, *volumes):
    found = matching_volume(wanted, volumes, "n1", {"host": "n1"})
    return found.metadata.name if found else None


def test_the_smallest_that_is_large_enough_is_taken():
    assert (
        chosen(claim(), volume("big", "100Gi"), volume("fits", "5Gi"), volume("low", "4Gi"))
        == "fits"
    )


def test_a_volume_of_another_node_does_not_serve():
    assert chosen(claim(), volume(node="n2")) is None
    assert chosen(claim(), volume(node="n1")) == "pv"


@pytest.mark.parametrize(
    "spec",
    [
        {"storageClassName": "other"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"claimRef": {"namespace": "ns", "name": "other", "uid": "x"}},
        {"claimRef": {"namespace": "ns", "name": "data", "uid": "earlier"}},
    ],
)
def test_what_differs_in_kind_or_is_promised_to_others_does_not_serve(spec):
    assert chosen(claim(), volume(**spec)) is None


def test_a_volume_that_is_promised_to_the_claim_comes_first():
    """A crash between the promise and the bind: the same volume is taken again."""
    mine = volume("mine", "50Gi", claimRef={"namespace": "ns", "name": "data", "uid": "c-1"})
    assert chosen(claim(), volume("small", "5Gi"), mine) == "mine"


def test_a_selector_is_heeded():
    assert chosen(claim(selector={"matchLabels": {"kind": "slow"}}), volume()) is None
    assert chosen(claim(selector={"matchLabels": {"kind": "fast"}}), volume()) == "pv"


def test_what_is_written_names_the_version_that_was_looked_at():
    given = promise(volume(), claim())
    assert given["metadata"]["resourceVersion"] == "7"
    assert given["spec"]["claimRef"]["uid"] == "c-1"
    assert unpromise(volume())["spec"] == {"claimRef": None}
    assert select_node(claim(), "n1")["metadata"] == {
        "resourceVersion": "3",
        "annotations": {"volume.kubernetes.io/selected-node": "n1"},
    }


def test_a_volume_without_affinity_is_usable_everywhere():
    assert fits_node(volume(), "n9", {})


def test_the_claims_of_a_pod_are_named_once_each():
    body = {
        "metadata": {"name": "pod"},
        "spec": {
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "cm", "configMap": {"name": "x"}},
            ]
        },
    }
    assert volume_claims(decode_pod(msgspec.json.encode(body))) == ("data", "pod-scratch")
