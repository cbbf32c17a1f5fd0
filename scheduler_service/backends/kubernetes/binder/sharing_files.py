"""The two ConfigMaps through which a container with a share learns its device: their names and content. Pure.

A pod's environment is fixed when it is made and its GPU is known only when it is bound; so admission writes references
to ConfigMaps that the binder fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.objects import RawPod

LEGACY_VISIBLE = "RUNAI-VISIBLE-DEVICES"


@dataclass(frozen=True, slots=True)
class Share:
    """What a pod got: the devices by UUID, how much of each, and the memory it may use (None = not told)."""

    devices: Sequence[str]
    portion: str
    memory_mib: int | None = None
    use_cdi: bool = False

    def variables(self) -> dict[str, str]:
        """Return what the container sees."""
        prefix = names.CDI_PREFIX if self.use_cdi else ""
        found = {
            names.ENV_VISIBLE_DEVICES: ",".join(prefix + device for device in self.devices),
            names.ENV_PORTION: self.portion,
            names.ENV_NUM_GPUS: self.portion,
        }
        if self.memory_mib is not None:
            found[names.ENV_MEMORY_LIMIT] = f"{self.memory_mib}m"
        return found


def file_names(pod: RawPod) -> tuple[str, str] | None:
    """Return the names of the capabilities map and of the environment map; None where the pod has no place for them."""
    prefix = pod.metadata.annotations.get(names.SHARED_GPU_CONFIG_MAP, "")
    place = _place(pod)
    if not prefix or place is None:
        return None
    return f"{prefix}-{place}", f"{prefix}-{place}-evar"


def _place(pod: RawPod) -> str | None:
    """Return the container with the share as KAI counts: `i<n>` for an init container, `<n>` for another."""
    wanted = pod.metadata.annotations.get(names.GPU_FRACTION_CONTAINER, "")
    if not wanted:
        return "0"
    for prefix, containers in (("i", pod.spec.init_containers), ("", pod.spec.containers)):
        for number, container in enumerate(containers):
            if container.name == wanted:
                return f"{prefix}{number}"
    return None


def sharing_files(pod: RawPod, share: Share) -> list[dict[str, Any]]:
    """Return both ConfigMaps, owned by the pod; none where it has no place for them."""
    called = file_names(pod)
    if called is None:
        return []
    variables = share.variables()
    legacy = {LEGACY_VISIBLE: variables[names.ENV_VISIBLE_DEVICES]}
    return [
        _config_map(pod, called[0], {**variables, **legacy}),
        _config_map(pod, called[1], variables),
    ]


def _config_map(pod: RawPod, name: str, data: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": names.CONFIG_MAPS.api_version,
        "kind": names.CONFIG_MAPS.kind,
        "metadata": {
            "name": name,
            "namespace": pod.metadata.namespace,
            "ownerReferences": [
                {
                    "apiVersion": names.PODS.api_version,
                    "kind": names.PODS.kind,
                    "name": pod.metadata.name,
                    "uid": pod.metadata.uid,
                }
            ],
        },
        "data": data,
    }
