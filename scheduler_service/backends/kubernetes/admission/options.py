"""What an operator chooses for admission: flags of `kai webhook`, and what kai-config says over them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler_service.backends.kubernetes import names

SYSTEM_NAMESPACE = "kube-system"
ADMINISTRATORS = frozenset({"system:masters", "kubeadm:cluster-admins"})
"""Groups whose members may do everything anyway: the API server's own, and that of kubeadm's administrators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices. Trusted are our own accounts, the controllers of Kubernetes, and whom the operator names."""

    scheduler_name: str = names.SCHEDULER_NAME
    namespace: str = names.NAMESPACE
    queue_label: str = names.QUEUE_LABEL
    node_pool_label: str = names.NODE_POOL_LABEL
    default_queue: str = names.DEFAULT_QUEUE
    gpu_sharing: bool = True
    fraction_runtime_class: str = "nvidia"
    block_visible_devices: bool = False
    memory_limit_in_container: bool = False
    strict_queues: bool = False
    trusted: frozenset[str] = frozenset()

    def is_ours(self, user: str) -> bool:
        """Whether a request comes from one of our own accounts."""
        return user.startswith(f"system:serviceaccount:{self.namespace}:")

    def is_trusted(self, user: str, groups: frozenset[str]) -> bool:
        """Whether what a request says about an object's origin is believed."""
        return self.is_ours(user) or user in self.trusted or bool(ADMINISTRATORS & groups)

    def is_controller(self, user: str) -> bool:
        """Whether the account makes pods for objects that others wrote."""
        return user in self.trusted or user.startswith(f"system:serviceaccount:{SYSTEM_NAMESPACE}:")


def with_config(options: Options, config: Mapping[str, Any] | None) -> Options:
    """Return the options with what a Config object says in KAI's fields; what it leaves out stays."""
    spec = _mapping(_mapping(config or {}).get("spec"))
    general, admission = _mapping(spec.get("global")), _mapping(spec.get("admission"))
    plugins = _mapping(_mapping(spec.get("binder")).get("plugins"))
    told: dict[str, Any] = {
        "scheduler_name": _text(general.get("schedulerName")),
        "queue_label": _text(general.get("queueLabelKey")),
        "node_pool_label": _text(general.get("nodePoolLabelKey")),
        "gpu_sharing": _flag(admission.get("gpuSharing")),
        "fraction_runtime_class": _runtime_class(admission),
        "block_visible_devices": _flag(admission.get("blockNvidiaVisibleDevices")),
        "memory_limit_in_container": _flag(_mapping(plugins.get("hamicore")).get("enabled")),
    }
    return replace(options, **{key: value for key, value in told.items() if value is not None})


def _runtime_class(admission: Mapping[str, Any]) -> str | None:
    """The newer field wins; an empty text turns it off."""
    for key in ("gpuFractionRuntimeClassName", "gpuPodRuntimeClassName"):
        value = admission.get(key)
        if isinstance(value, str):
            return value
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
