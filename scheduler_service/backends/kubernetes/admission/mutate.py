"""What is added to a pod before it is stored, as a JSON patch. Pure.

A container's environment can not change once its pod exists, and the GPU is known only when it is bound. So a pod
with a share refers to ConfigMaps that do not exist yet: it can not start before the binder has written them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.pods import (
    Place,
    asks_share,
    has_container_gpu,
    places,
    shared_place,
)
from scheduler_service.backends.kubernetes.admission.review import (
    Object,
    Patch,
    annotations_of,
    items,
    mapping,
    text,
)

LONGEST_PREFIX = 50
"""So that every name made from it, like `<prefix>-i10-evar`, has at most 63 characters."""
FRACTION_ENV = (names.ENV_VISIBLE_DEVICES, names.ENV_NUM_GPUS, names.ENV_PORTION)
NO_DEVICES = "void"


def pod_patch(
    pod: Object, options: Options, *, token: str, has_runtime_class: bool
) -> tuple[Patch, ...]:
    """Return the changes to a new pod; `token` makes its ConfigMap names unlike any other's."""
    place = shared_place(pod) if asks_share(pod) else None
    changes: list[Patch] = []
    if place is not None:
        changes += _share(pod, place, options, token)
        wanted = options.fraction_runtime_class
        if wanted and has_runtime_class and not text(pod, "spec", "runtimeClassName"):
            changes.append(_set("/spec/runtimeClassName", wanted))
    if options.block_visible_devices:
        changes += _blocked(pod, place)
    return tuple(changes)


def config_map_prefix(pod: Object, token: str) -> str:
    """Return how the names of a pod's ConfigMaps begin: after its owner or itself, never its namespace."""
    owners = items(pod, "metadata", "ownerReferences")
    name = text(owners[0], "name") if owners else ""
    base = name or text(pod, "metadata", "name") or text(pod, "metadata", "generateName") or "pod"
    ending = f"-{token}-shared-gpu"
    return base[: LONGEST_PREFIX - len(ending)].rstrip(".-") + ending


def volume_name(config_map: str) -> str:
    """Return the volume's name for a ConfigMap, in the letters that volumes may have."""
    return re.sub(r"[^a-z0-9-]+", "-", config_map.lower()) + "-vol"


def _share(pod: Object, place: Place, options: Options, token: str) -> Iterator[Patch]:
    prefix = config_map_prefix(pod, token)
    capabilities = f"{prefix}-{place.suffix}"
    former = annotations_of(pod).get(names.SHARED_GPU_CONFIG_MAP)
    path = f"/spec/{place.field}/{place.index}"
    yield _set(f"{path}/env", _env(place.container, capabilities, options))
    yield _set(f"{path}/envFrom", _env_from(place.container, f"{capabilities}-evar", former))
    yield _set("/spec/volumes", _volumes(pod, capabilities, former))
    yield _set(
        "/metadata/annotations", {**annotations_of(pod), names.SHARED_GPU_CONFIG_MAP: prefix}
    )


def _env(container: Object, config_map: str, options: Options) -> list[dict[str, Any]]:
    """The variables that the binder fills, before the container's own, which may refer to them."""
    ours = [_reference(name, config_map) for name in FRACTION_ENV]
    if options.memory_limit_in_container:
        ours.append(_reference(names.ENV_MEMORY_LIMIT, config_map, is_optional=True))
    taken = {entry["name"] for entry in ours}
    return ours + [dict(e) for e in items(container, "env") if text(e, "name") not in taken]


def _reference(name: str, config_map: str, *, is_optional: bool = False) -> dict[str, Any]:
    key: dict[str, Any] = {"name": config_map, "key": name}
    if is_optional:
        key["optional"] = True
    return {"name": name, "valueFrom": {"configMapKeyRef": key}}


def _env_from(container: Object, config_map: str, former: Any) -> list[dict[str, Any]]:
    kept = [
        dict(source)
        for source in items(container, "envFrom")
        if not _is_of(text(source, "configMapRef", "name"), former)
    ]
    return [*kept, {"configMapRef": {"name": config_map}}]


def _volumes(pod: Object, config_map: str, former: Any) -> list[dict[str, Any]]:
    kept = [
        dict(volume)
        for volume in items(pod, "spec", "volumes")
        if not _is_of(text(mapping(volume, "configMap"), "name"), former)
    ]
    return [*kept, {"name": volume_name(config_map), "configMap": {"name": config_map}}]


def _is_of(config_map: str, former: Any) -> bool:
    """Whether a name stems from an earlier pod that this one was copied from."""
    return isinstance(former, str) and bool(former) and config_map.startswith(f"{former}-")


def _blocked(pod: Object, shared: Place | None) -> Iterator[Patch]:
    """Containers without a GPU of their own see none, whatever their image or author wished."""
    for place in places(pod):
        is_shared = shared is not None and (place.field, place.index) == (
            shared.field,
            shared.index,
        )
        if is_shared or has_container_gpu(place.container):
            continue
        kept = [
            dict(entry)
            for entry in items(place.container, "env")
            if text(entry, "name") != names.ENV_VISIBLE_DEVICES
        ]
        yield _set(
            f"/spec/{place.field}/{place.index}/env",
            [*kept, {"name": names.ENV_VISIBLE_DEVICES, "value": NO_DEVICES}],
        )


def _set(path: str, value: Any) -> Patch:
    """`add` sets a field of an object whether it was there or not."""
    return {"op": "add", "path": path, "value": value}
