"""From the API's pod to the model's: state, place, request, rules."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.quantities import moment_or_none
from scheduler_service.backends.kubernetes.decode.requests import request_of, shares_of
from scheduler_service.backends.kubernetes.decode.selectors import (
    Rules,
    node_affinity,
    pod_rules,
    tolerations,
)
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.grouping import keys
from scheduler_service.model.pod import Pod, PodState

LEADER_FIRST = 1_000_000_000
"""Masters, launchers and heads start before all other pods of their group."""
_LEADERS = (
    ("training.kubeflow.org/job-role", frozenset({"master", "launcher"})),
    ("ray.io/node-type", frozenset({"head"})),
)
_PHASES = {"Succeeded": PodState.SUCCEEDED, "Failed": PodState.FAILED}


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a pod that the API does not show on a node yet is on its way to, with the shared GPUs it gets."""

    node: str
    devices: tuple[str, ...] = ()


def is_bound(pod: RawPod) -> bool:
    """Whether a pod is on a node and holds what it asked for."""
    return bool(pod.spec.node_name) and not pod.is_over


def group_name(pod: RawPod) -> str:
    """Return the name of the pod's group, "" where nobody said one yet."""
    return pod.metadata.annotations.get(names.POD_GROUP_ANNOTATION, "")


def group_key(pod: RawPod) -> str:
    """Return namespace/name of the pod's group, "" where nobody said one yet."""
    name = group_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def is_released(pod: RawPod) -> bool:
    """Whether the owner of this pod wants it no more, though its group goes on."""
    return bool(pod.metadata.annotations.get(keys.RELEASED))


def gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the shared GPUs that a pod's labels name, in order."""
    groups = {value for key, value in labels.items() if key.startswith(names.GPU_GROUP_PREFIX)}
    single = labels.get(names.GPU_GROUP_LABEL)
    if single:
        groups.add(single)
    return tuple(sorted(groups))


def precedence(labels: Mapping[str, str]) -> int | None:
    """Return a pod's order inside its group, higher first; None: after all that have one."""
    asked: int | None = None
    try:
        asked = int(labels[names.TASK_PRIORITY_LABEL])
    except (KeyError, ValueError):
        asked = None
    if any(labels.get(key) in values for key, values in _LEADERS):
        return LEADER_FIRST + (asked or 0)
    return asked


def state_of(pod: RawPod, place: Place | None, *, is_held_back: bool = False) -> PodState | None:
    """Return where a pod is in its life; None: it goes before it was anywhere, nobody need know it."""
    if pod.is_over:
        return _PHASES[pod.status.phase]
    is_leaving = bool(pod.metadata.deletion_timestamp)
    if not pod.spec.node_name:
        return None if is_leaving else _state_without_node(pod, place, is_held_back=is_held_back)
    if is_leaving:
        return PodState.RELEASING
    return PodState.BOUND if pod.status.phase == "Pending" else PodState.RUNNING


def _state_without_node(pod: RawPod, place: Place | None, *, is_held_back: bool) -> PodState:
    if place is not None:
        return PodState.BINDING
    is_gated = bool(pod.spec.scheduling_gates) or is_held_back
    return PodState.GATED if is_gated else PodState.PENDING


def claim_names(pod: RawPod) -> tuple[str, ...]:
    """Return the names of the resource claims of a pod, as far as they are made."""
    if not pod.spec.resource_claims:
        return ()
    made = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    found = [
        item.resource_claim_name or made.get(item.name, "") for item in pod.spec.resource_claims
    ]
    return tuple(name for name in found if name)


def pod_of(
    raw: RawPod,
    rules: Rules,
    *,
    place: Place | None = None,
    gpu_memory_mib: int | None = None,
    is_held_back: bool = False,
) -> Pod | None:
    """Return the model's pod, None where there is none to know.

    `place`: where it is being bound. `gpu_memory_mib`: of the node it is on. `is_held_back`: its group is not to
    get anything more. Raises `BadShare` for a share that makes no sense.
    """
    state = state_of(raw, place, is_held_back=is_held_back)
    if state is None:
        return None
    meta, spec = raw.metadata, raw.spec
    request = request_of(raw)
    node, devices = _held(raw, place)
    near, far = pod_rules(spec.affinity, meta.namespace, rules)
    labels = meta.labels
    if rules.pods:
        labels = {**labels, **rules.labels_of_pod(labels, meta.namespace)}
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        group=group_key(raw),
        state=state,
        sub_group=labels.get(names.SUB_GROUP_LABEL) or "default",
        request=request,
        node=node,
        devices=shares_of(request, devices, gpu_memory_mib) if devices else (),
        precedence=precedence(labels),
        deleted_ms=moment_or_none(meta.deletion_timestamp),
        labels=labels,
        node_affinity=node_affinity(spec, rules),
        pod_affinity=near,
        pod_anti_affinity=far,
        tolerations=tolerations(spec.tolerations) if spec.tolerations else (),
        resource_claims=claim_names(raw),
        legacy_mig=any(key.startswith(names.MIG_PREFIX) for key in meta.annotations),
    )


def _held(raw: RawPod, place: Place | None) -> tuple[str | None, tuple[str, ...]]:
    if raw.is_over:
        return None, ()
    if raw.spec.node_name:
        told = gpu_groups(raw.metadata.labels)
        if not told and place is not None and place.node == raw.spec.node_name:
            told = place.devices
        return raw.spec.node_name, told
    return (place.node, place.devices) if place is not None else (None, ())
