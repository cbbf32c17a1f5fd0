"""Which volumes a pod's claims can have on a node, and what is written to get them. Pure.

A claim is bound at once (its class says `Immediate`) or when its first consumer is placed: then either an existing
volume that fits the node is reserved for it, or the provisioner is told the node by an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes.decode.quantities import whole
from scheduler_service.backends.kubernetes.decode.selectors import selects, term_matches
from scheduler_service.backends.kubernetes.objects import (
    Labels,
    LabelSelector,
    Meta,
    NodeSelector,
    Quantities,
    decoder,
)
from scheduler_service.model.resources import nothing

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
LATE = "WaitForFirstConsumer"


class _Resources(msgspec.Struct, frozen=True, gc=False):
    requests: Quantities = msgspec.field(default_factory=nothing)


class _ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: _Resources = _Resources()
    selector: LabelSelector | None = None


class _ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class VolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    metadata: Meta
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether it has its volume."""
        return self.status.phase == "Bound" and bool(self.spec.volume_name)

    @property
    def selected_node(self) -> str:
        """The node its provisioner was told, "" = none."""
        return self.metadata.annotations.get(SELECTED_NODE, "")


class _ClaimRef(msgspec.Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Affinity(msgspec.Struct, frozen=True, gc=False):
    required: NodeSelector | None = None


class _VolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    capacity: Quantities = msgspec.field(default_factory=nothing)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: _ClaimRef | None = None
    node_affinity: _Affinity | None = None


class Volume(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolume."""

    metadata: Meta
    spec: _VolumeSpec = _VolumeSpec()
    status: _ClaimStatus = _ClaimStatus()


class StorageClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How claims of a class get their volumes."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"


claim_of = decoder(VolumeClaim)
volume_of = decoder(Volume)
storage_class_of = decoder(StorageClass)


def fits_node(volume: Volume, node: str, labels: Labels) -> bool:
    """Return whether the volume can be used on a node with these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(term_matches(term, labels, node) for term in affinity.required.node_selector_terms)


def matching_volume(
    claim: VolumeClaim,
    volumes: Iterable[Volume],
    node: str,
    labels: Labels,
) -> Volume | None:
    """Return the smallest free volume that serves the claim on the node; one that is promised to it comes first."""
    wanted = whole(claim.spec.resources.requests.get("storage", 0))
    found: list[tuple[bool, int, str, Volume]] = []
    for volume in volumes:
        if not _serves(volume, claim) or not fits_node(volume, node, labels):
            continue
        size = whole(volume.spec.capacity.get("storage", 0))
        if size >= wanted:
            found.append((volume.spec.claim_ref is None, size, volume.metadata.name, volume))
    return min(found, key=lambda each: each[:3])[3] if found else None


def _serves(volume: Volume, claim: VolumeClaim) -> bool:
    spec, held = volume.spec, volume.spec.claim_ref
    if held is not None and not _is_for(held, claim):
        return False
    if volume.metadata.deletion_timestamp or volume.status.phase not in {
        "Available",
        "Pending",
        "",
    }:
        return False
    return (
        spec.storage_class_name == claim.spec.storage_class_name
        and spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(spec.access_modes)
        and (claim.spec.selector is None or selects(claim.spec.selector, volume.metadata.labels))
    )


def _is_for(held: _ClaimRef, claim: VolumeClaim) -> bool:
    meta = claim.metadata
    return (held.namespace, held.name) == (meta.namespace, meta.name) and held.uid in {"", meta.uid}


def promise(volume: Volume, claim: VolumeClaim) -> dict[str, Any]:
    """Return the merge patch that reserves a volume for a claim, in the version that was looked at."""
    return {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            }
        },
    }


def unpromise(volume: Volume) -> dict[str, Any]:
    """Return the merge patch that gives a reserved volume back."""
    return {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: None},
        },
        "spec": {"claimRef": None},
    }


def select_node(claim: VolumeClaim, node: str | None) -> dict[str, Any]:
    """Return the merge patch that tells the provisioner the node, or takes it back."""
    return {
        "metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {SELECTED_NODE: node},
        }
    }
