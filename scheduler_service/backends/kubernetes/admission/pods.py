"""What the rules read of a pod: containers, what they ask of GPUs, whether it runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.review import (
    Object,
    annotations_of,
    items,
    mapping,
    text,
)

SHARE_KEYS = (
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_DEVICES,
    names.GPU_FRACTION_CONTAINER,
    names.MPS,
)
"""The annotations that ask for a share of a GPU."""


@dataclass(frozen=True, slots=True)
class Place:
    """One container of a pod: in which list it stands and where."""

    field: str
    index: int
    container: Object

    @property
    def suffix(self) -> str:
        """How the ConfigMaps of this container end: its number, `i` before that of an init container."""
        return f"i{self.index}" if self.field == "initContainers" else str(self.index)

    @property
    def name(self) -> str:
        """The container's name."""
        return text(self.container, "name")


def places(pod: Object) -> Iterator[Place]:
    """Yield the containers: init containers first, as a container is searched for by name."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(items(pod, "spec", field)):
            yield Place(field, index, container)


def shared_place(pod: Object) -> Place | None:
    """Return the container that gets the share: the one named, else the first regular one."""
    wanted = annotations_of(pod).get(names.GPU_FRACTION_CONTAINER)
    if wanted:
        return next((place for place in places(pod) if place.name == wanted), None)
    return next((place for place in places(pod) if place.field == "containers"), None)


def resources_of(container: Object) -> dict[str, Any]:
    """Return what a container asks for: requests, and limits over them."""
    return {
        **mapping(container, "resources", "requests"),
        **mapping(container, "resources", "limits"),
    }


def asks_whole_gpu(pod: Object) -> bool:
    """Whether any container asks for whole GPUs."""
    return any(
        _is_some(resources_of(place.container).get(names.GPU_RESOURCE)) for place in places(pod)
    )


def other_gpus(pod: Object) -> list[str]:
    """Return the other GPU resources that containers ask for, like MIG slices, in order of name."""
    return sorted(
        {
            name
            for place in places(pod)
            for name, amount in resources_of(place.container).items()
            if is_gpu(name) and name != names.GPU_RESOURCE and _is_some(amount)
        }
    )


def is_gpu(resource: str) -> bool:
    """Whether a resource stands for GPUs or parts of them."""
    return resource.endswith("/gpu") or resource.startswith(names.MIG_PREFIX)


def has_container_gpu(container: Object) -> bool:
    """Whether one container asks for GPUs of any kind, or for a claim (which may be one)."""
    asked = resources_of(container)
    return any(is_gpu(name) and _is_some(amount) for name, amount in asked.items()) or bool(
        items(container, "resources", "claims")
    )


def asks_share(pod: Object) -> bool:
    """Whether the pod asks for a share of a GPU."""
    given = annotations_of(pod)
    return names.GPU_FRACTION in given or names.GPU_MEMORY in given


def uses_gpu(pod: Object) -> bool:
    """Whether the pod asks for GPUs in any form."""
    return asks_share(pod) or asks_whole_gpu(pod) or bool(other_gpus(pod))


def scheduler_of(pod: Object) -> str:
    """Return the scheduler that the pod names."""
    return text(pod, "spec", "schedulerName")


def is_bound(pod: Object) -> bool:
    """Whether the pod has a node."""
    return bool(text(pod, "spec", "nodeName"))


def owner_uids(of: Object) -> frozenset[str]:
    """Return the UIDs of all owners of an object."""
    return frozenset(text(owner, "uid") for owner in items(of, "metadata", "ownerReferences"))


def changed(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> bool:
    """Whether a label or annotation was added, altered or taken away."""
    return old.get(key) != new.get(key)


def _is_some(amount: Any) -> bool:
    return amount is not None and str(amount) not in {"0", ""}
