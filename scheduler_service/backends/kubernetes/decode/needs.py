"""What a waiting pod needs beside room: ConfigMaps that exist, volume claims that can be had, and where. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import (
    Container,
    KeyReference,
    Meta,
    NodeSelector,
    RawPod,
    decoder,
)

LATE = "WaitForFirstConsumer"
BY_THE_CLUSTER = "kube-root-ca.crt"
"""Every pod mounts it, every namespace gets it by itself, and the kubelet waits for it."""


class ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which volume a claim has, and of what class it wants one."""

    volume_name: str = ""
    storage_class_name: str | None = None


class ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether it has its volume."""

    phase: str = ""


class RawVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim of the API."""

    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Where a volume can be reached from."""

    required: NodeSelector | None = None


class VolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a volume is."""

    node_affinity: VolumeAffinity | None = None


class RawVolume(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolume of the API."""

    metadata: Meta
    spec: VolumeSpec = VolumeSpec()


class RawStorageClass(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A StorageClass of the API."""

    metadata: Meta
    volume_binding_mode: str = "Immediate"


decode_volume_claim = decoder(RawVolumeClaim)
decode_volume = decoder(RawVolume)
decode_storage_class = decoder(RawStorageClass)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod can not be placed yet ("" = it can), and the nodes its volumes keep it to."""

    why: str = ""
    nodes: tuple[NodeSelector, ...] = ()


FREE = Verdict()


@dataclass(slots=True)
class Storage:
    """What is known of volumes, by name or namespace/name."""

    claims: Mapping[str, RawVolumeClaim]
    volumes: Mapping[str, RawVolume]
    classes: Mapping[str, RawStorageClass]


class Needs:
    """Judges waiting pods, and remembers whom to look at again when something comes."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.config_maps: dict[str, bool] = {}
        """What was asked of the API: namespace/name -> whether it exists."""
        self.wanting: dict[str, set[str]] = defaultdict(set)
        """What waiting pods depend on ("claim a/b", "volume v", "class c", "config a/b") -> the pods."""

    def judge(self, pod: RawPod) -> Verdict:
        """Return what stands in a pod's way, beside room."""
        why = self._config_maps(pod)
        if why:
            return Verdict(why)
        selectors: list[NodeSelector] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            verdict = self._claim(pod, volume.persistent_volume_claim.claim_name)
            if verdict.why:
                return verdict
            selectors += verdict.nodes
        return Verdict(nodes=tuple(selectors)) if selectors else FREE

    def forget(self, pod: str) -> None:
        """A pod waits no more."""
        for key in [key for key, pods in self.wanting.items() if pod in pods]:
            self.wanting[key].discard(pod)
            if not self.wanting[key]:
                del self.wanting[key]

    def _config_maps(self, pod: RawPod) -> str:
        missing = []
        for name in sorted({*config_maps_of(pod)}):
            key = f"{pod.metadata.namespace}/{name}"
            self.wanting[f"config {key}"].add(pod.key)
            if not self.config_maps.get(key, False):
                missing.append(name)
        return f"The ConfigMap {', '.join(missing)} does not exist." if missing else ""

    def _claim(self, pod: RawPod, name: str) -> Verdict:
        key = f"{pod.metadata.namespace}/{name}"
        self.wanting[f"claim {key}"].add(pod.key)
        claim = self.storage.claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp:
            return Verdict(f"The volume claim {name} does not exist.")
        if claim.status.phase == "Bound" and claim.spec.volume_name:
            return self._volume(pod, claim.spec.volume_name)
        return self._unbound(pod, claim)

    def _volume(self, pod: RawPod, name: str) -> Verdict:
        self.wanting[f"volume {name}"].add(pod.key)
        volume = self.storage.volumes.get(name)
        affinity = None if volume is None else volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return FREE
        return Verdict(nodes=(affinity.required,))

    def _unbound(self, pod: RawPod, claim: RawVolumeClaim) -> Verdict:
        name, wanted = claim.metadata.name, claim.spec.storage_class_name
        if not wanted:
            return Verdict(f"The volume claim {name} is not bound yet.")
        self.wanting[f"class {wanted}"].add(pod.key)
        found = self.storage.classes.get(wanted)
        if found is None:
            return Verdict(f"The storage class {wanted} does not exist.")
        if found.volume_binding_mode != LATE:
            return Verdict(f"The volume claim {name} is not bound yet.")
        return FREE


def config_maps_of(pod: RawPod) -> Iterator[str]:
    """Yield the ConfigMaps that a pod can not start without; those of its GPU share are made at its binding."""
    own = pod.metadata.annotations.get(names.SHARED_GPU_CONFIG_MAP, "")
    for reference in _references(pod):
        is_made_later = bool(own) and reference.name.startswith(own)
        if reference.name and not (
            reference.optional or is_made_later or reference.name == BY_THE_CLUSTER
        ):
            yield reference.name


def _references(pod: RawPod) -> Iterator[KeyReference]:
    for volume in pod.spec.volumes:
        if volume.config_map is not None:
            yield volume.config_map
        if volume.projected is not None:
            yield from (one.config_map for one in volume.projected.sources if one.config_map)
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield from _of_container(container)


def _of_container(container: Container) -> Iterator[KeyReference]:
    for env in container.env:
        if env.value_from is not None and env.value_from.config_map_key_ref is not None:
            yield env.value_from.config_map_key_ref
    yield from (one.config_map_ref for one in container.env_from if one.config_map_ref)
