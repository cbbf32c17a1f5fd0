"""How two readings differ, and what is told of a pod that can not be scheduled as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.decode import pods as of_pods
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.ledger import events
from scheduler_service.model.pod import Pod, PodRequest, PodState


def unschedulable(raw: RawPod) -> Pod:
    """Return a pod that counts as a member and is never placed."""
    state = of_pods.state_of(raw, None, is_held_back=True) or PodState.GATED
    return Pod(
        raw.metadata.name,
        raw.metadata.namespace,
        of_pods.group_key(raw),
        state,
        node=raw.spec.node_name or None,
        request=PodRequest(),
    )


def is_same_but_for_state(old: Pod, new: Pod) -> bool:
    """Whether only state and place of a pod changed."""
    changed = replace(
        new, state=old.state, node=old.node, devices=old.devices, deleted_ms=old.deleted_ms
    )
    return bool(changed == old)


def put(table: dict[str, Any], key: str, value: object | None) -> None:
    """Set an entry; None takes it out."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def differences(
    now: Mapping[str, Any],
    told: Mapping[str, Any],
    added: Callable[[Any], events.Event],
    changed: Callable[[Any], events.Event],
    removed: Callable[[str], events.Event],
) -> Iterable[events.Event]:
    """Yield one event for each key that came, changed or went, in order."""
    for key in sorted(now.keys() | told.keys()):
        if key not in now:
            yield removed(key)
        elif key not in told:
            yield added(now[key])
        elif now[key] != told[key]:
            yield changed(now[key])
