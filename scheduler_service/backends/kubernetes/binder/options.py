"""What an operator may choose of the binder: flags, and on top of them the fields of KAI's Config object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from scheduler_service.backends.kubernetes import names

Sharing = Literal["reservation", "registry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BinderOptions:
    """How the binder works. Times are in seconds."""

    scheduler_name: str = names.SCHEDULER_NAME
    workers: int = 64
    sharing: Sharing = "reservation"
    use_cdi: bool = False
    limit_memory: bool = False
    """Whether a share is told its memory limit (`CUDA_DEVICE_MEMORY_LIMIT`), for an enforcer that reads it."""
    volume_timeout_s: float = 120.0
    reservation_timeout_s: float = 40.0
    reservation_namespace: str = names.RESERVATION_NAMESPACE
    reservation_account: str = names.ACCOUNT_RESERVATION
    reservation_app: str = names.RESERVATION_APP
    reservation_image: str = ""
    reservation_command: tuple[str, ...] = ("kai", "reserve")
    reservation_runtime_class: str = ""
    reservation_priority_class: str = "system-node-critical"
    reservation_resources: Mapping[str, Mapping[str, str]] | None = None
    reservation_template: Mapping[str, Any] | None = None
    """Fields that are merged into a reservation's spec (volumes, security contexts), for clusters that need them."""


def with_config(options: BinderOptions, spec: Mapping[str, Any]) -> BinderOptions:
    """Return the options as the `spec` of KAI's Config object changes them; what is not understood is left out."""
    binder = _mapping(spec.get("binder"))
    reservation = _mapping(binder.get("resourceReservation"))
    plugins = {name: _mapping(value) for name, value in _mapping(binder.get("plugins")).items()}
    volumes = _mapping(plugins.get("volumebinding", {}).get("arguments"))
    sharing = _mapping(plugins.get("gpusharing", {}).get("arguments"))
    wanted: dict[str, Any] = {
        "scheduler_name": _text(_mapping(spec.get("global")).get("schedulerName")),
        "use_cdi": _truth(sharing.get("cdiEnabled", binder.get("cdiEnabled"))),
        "limit_memory": _truth(plugins.get("hamicore", {}).get("enabled")),
        "volume_timeout_s": _seconds(
            volumes.get("bindTimeoutSeconds", binder.get("volumeBindingTimeoutSeconds"))
        ),
        "reservation_timeout_s": _seconds(reservation.get("allocationTimeout")),
        "reservation_namespace": _text(reservation.get("namespace")),
        "reservation_account": _text(reservation.get("serviceAccountName")),
        "reservation_app": _text(reservation.get("appLabel")),
        "reservation_runtime_class": _text(reservation.get("runtimeClassName")),
        "reservation_resources": _mapping(reservation.get("podResources")) or None,
    }
    return replace(options, **{key: value for key, value in wanted.items() if value is not None})


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _truth(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())


def _seconds(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if found > 0 else None
