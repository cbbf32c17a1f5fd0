"""From the model to the format: snapshots and captures that `reader` reads back exactly.

A snapshot file has FORMAT.md's top-level fields, `version` and `now`. A capture has besides, under
`plan`, what was decided; `replay` compares. Fields with the reader's defaults are left out.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_service.model.claim import ResourceClaim
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import PodGroup, SubGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare, Resources
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.model.topology import TopologyConstraint
from scheduler_service.simulate.reader import ACTION_OF, VERSION
from scheduler_service.simulate.translate import PREEMPTIBILITY

PREEMPTIBLE_WORD: Final = {value: word for word, value in PREEMPTIBILITY.items()}
ACTION_WORD: Final = {value: word for word, value in ACTION_OF.items()}
Fields = dict[str, Any]


def snapshot_file(snapshot: Snapshot, policy: Policy, plan: Plan | None = None) -> Fields:
    """Return the content of a snapshot file, or with `plan` of a capture."""
    now = snapshot.now_ms
    members: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        members.setdefault(pod.group, []).append(pod)
    unique = Counter(group.name for group in snapshot.pod_groups)
    content: Fields = {
        "version": VERSION,
        "now": now,
        "policy": _policy(policy),
        "nodes": {node.name: _node(node) for node in _by_name(snapshot.nodes)},
        "queues": {queue.name: _queue(queue) for queue in _by_name(snapshot.queues)},
        "pod_groups": {
            group.name if unique[group.name] == 1 else group.key: _group(
                group, members.get(group.key, []), now, is_unique=unique[group.name] == 1
            )
            for group in sorted(snapshot.pod_groups, key=lambda group: group.key)
        },
    }
    content |= _topologies(snapshot) | _claims(snapshot) | _extras(snapshot)
    return content if plan is None else content | {"plan": decision(plan)}


def plan_content(plan: Plan) -> Fields:
    """Return the plan as plain values; equal plans give equal values."""
    return dict(msgspec.to_builtins(plan, enc_hook=str))


def decision(plan: Plan) -> Fields:
    """Return what a plan decides; what it cost to find (`work`) may differ between releases."""
    return {name: value for name, value in plan_content(plan).items() if name != "work"}


def text_of(content: Fields) -> str:
    """Return a file's text; equal contents give equal bytes."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write(file: Path, content: Fields) -> None:
    """Write a snapshot or capture file, whole or not at all, readable by its owner only."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text_of(content))
    Path(temporary).replace(file)


def _by_name(things: tuple[Any, ...]) -> list[Any]:
    return sorted(things, key=lambda thing: thing.name)


def _given(**fields: Any) -> Fields:
    """Return the fields that say something: not None, not empty, not false."""
    return {name: value for name, value in fields.items() if value not in (None, "", 0, [], {})}


def _seconds(milliseconds: int | None) -> int | float | None:
    if milliseconds is None:
        return None
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000


def _since(moment: int | None, now: int) -> int | float | None:
    return None if moment is None else _seconds(now - moment)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _policy(policy: Policy) -> Fields:
    return {
        "placement": _plain(policy.placement),
        "actions": [ACTION_WORD[action] for action in policy.actions],
        "stale_gang_grace_s": _seconds(policy.stale_gang_grace_ms),
        "max_consolidation_victims": policy.max_consolidation_victims,
        "stuck_after_s": _seconds(policy.stuck_after_ms),
        "hold_s": _seconds(policy.hold_ms),
        "back_off_s": _seconds(policy.back_off_ms),
        "max_back_off_s": _seconds(policy.max_back_off_ms),
        "user_fairness": policy.user_fairness,
        "usage_weight_milli": policy.usage_weight_milli,
        "usage_half_life_s": _seconds(policy.usage_half_life_ms),
        "usage_window_s": _seconds(policy.usage_window_ms),
        "restrict_node_roles": policy.restrict_node_roles,
        "max_simulations": policy.max_simulations,
        "reserve_after_s": _seconds(policy.reserve_after_ms),
        "reserve_for_s": _seconds(policy.reserve_for_ms),
        "age_s": _seconds(policy.age_ms),
        "max_age": policy.max_age,
    }


def _node(node: Node) -> Fields:
    return {
        "gpus": node.gpus,
        "gpu_memory_mib": node.gpu_memory_mib,
        "cpu_milli": node.milli_cpu,
        "memory_bytes": node.memory_bytes,
        "max_pods": node.max_pods,
        "labels": dict(node.labels),
        "mig": dict(node.mig),
        "mig_strategy": node.mig_strategy,
        "ready": node.ready,
        "role": node.role,
    } | _given(
        devices=_plain(node.devices),
        taints=_plain(node.taints),
        extended=dict(node.extended),
        foreign_cpu_milli=node.foreign_milli_cpu,
        foreign_memory_bytes=node.foreign_memory_bytes,
        foreign_pods=node.foreign_pods,
    )


def _queue(queue: Queue) -> Fields:
    return {
        "parent": queue.parent,
        "priority": queue.priority,
        "created": queue.created,
        "gpu_milli": _share(queue.gpu),
        "cpu_milli": _share(queue.cpu),
        "memory_bytes": _share(queue.memory),
        "preempt_min_runtime_s": _seconds(queue.preempt_min_runtime_ms),
        "reclaim_min_runtime_s": _seconds(queue.reclaim_min_runtime_ms),
    }


def _share(share: QueueShare) -> Fields:
    return {
        "quota": share.quota,
        "limit": share.limit,
        "over_quota_weight": share.over_quota_weight,
    }


def _group(group: PodGroup, members: list[Pod], now: int, *, is_unique: bool) -> Fields:
    grace = group.stale_grace_ms
    return (
        {
            "queue": group.queue,
            "namespace": group.namespace,
            "priority": group.priority,
            "preemptible": PREEMPTIBLE_WORD[group.preemptibility],
            "created": group.created,
            "stale_for_s": _since(group.stale_since_ms, now),
            "started_s_ago": _since(group.started_ms, now),
            "preemption_delay_s": _seconds(group.preemption_delay_ms),
            "created_s_ago": _since(group.made_ms, now),
            "last_evicted_s_ago": _since(group.last_evicted_ms, now),
            "waiting_s": _since(group.waits_since_ms, now),
            "run_s": _seconds(group.run_ms),
            "gang": {
                "topology": _constraint(group.gang.topology),
                "min_subgroups": group.gang.min_subgroups,
                "subgroups": [_sub_group(child) for child in group.gang.children],
            },
            "pods": [_pod(pod, now) for pod in _by_name(tuple(members))],
        }
        | _given(
            owner=group.owner,
            kind=group.kind,
            labels=dict(group.labels),
            name=None if is_unique else group.name,
        )
        | ({} if isinstance(grace, msgspec.UnsetType) else {"stale_grace_s": _seconds(grace)})
    )


def _sub_group(part: SubGroup) -> Fields:
    found: Fields = {"name": part.name, "topology": _constraint(part.topology)}
    if part.is_leaf:
        return found | {"min_members": part.min_members}
    return found | {
        "min_subgroups": part.min_subgroups,
        "subgroups": [_sub_group(child) for child in part.children],
    }


def _constraint(constraint: TopologyConstraint | None) -> Fields | None:
    return None if constraint is None else dict(_plain(constraint))


def _pod(pod: Pod, now: int) -> Fields:
    is_leaving = pod.state is PodState.RELEASING and pod.deleted_ms is not None
    return {
        "name": pod.name,
        "state": pod.state.value,
        "subgroup": pod.sub_group,
        "request": {
            "cpu_milli": pod.request.milli_cpu,
            "memory_bytes": pod.request.memory_bytes,
            **_gpu(pod.request.gpu),
            **_given(
                extended=dict(pod.request.extended),
                overhead_cpu_milli=pod.request.overhead_milli_cpu,
                overhead_memory_bytes=pod.request.overhead_memory_bytes,
            ),
        },
        "node": pod.node,
        "task_priority": pod.precedence,
        **({"deleted_s_ago": _since(pod.deleted_ms, now)} if is_leaving else {}),
    } | _given(
        held=_plain(pod.devices),
        labels=dict(pod.labels),
        node_affinity=_plain(pod.node_affinity),
        pod_affinity=_plain(pod.pod_affinity),
        pod_anti_affinity=_plain(pod.pod_anti_affinity),
        tolerations=_plain(pod.tolerations),
        resource_claims=list(pod.resource_claims),
        legacy_mig=pod.legacy_mig,
    )


def _gpu(request: GpuRequest | None) -> Fields:
    match request:
        case WholeGpus(count=count):
            return {"gpus": count}
        case FractionOfGpu(milli=milli, devices=devices):
            return {"gpu_fraction_milli": milli, "devices": devices}
        case GpuMemory(mib=mib, devices=devices):
            return {"gpu_memory_mib": mib, "devices": devices}
        case Mig(profiles=profiles):
            return {"mig": dict(profiles)}
        case None:
            return {}


def _topologies(snapshot: Snapshot) -> Fields:
    found = _by_name(snapshot.topologies)
    return _given(
        topologies={topology.name: list(topology.levels) for topology in found},
        topology_aliases={
            topology.name: dict(topology.aliases) for topology in found if topology.aliases
        },
    )


def _claims(snapshot: Snapshot) -> Fields:
    return _given(
        resource_slices=[_plain(piece) for piece in snapshot.resource_slices],
        resource_claims={
            claim.name: _claim(claim)
            for claim in sorted(snapshot.resource_claims, key=lambda claim: claim.key)
        },
    )


def _claim(claim: ResourceClaim) -> Fields:
    return {
        "namespace": claim.namespace,
        "queue": claim.queue,
        "device_class": claim.device_class,
        "count": claim.count,
        "allocation": None if claim.allocation is None else _plain(claim.allocation),
        "reserved_for": list(claim.reserved_for),
        "foreign_consumers": claim.foreign_consumers,
    }


def _extras(snapshot: Snapshot) -> Fields:
    now = snapshot.now_ms
    return _given(
        vetoes=[_plain(veto) for veto in snapshot.vetoes],
        holds=[
            {"pod": hold.pod, "node": hold.node, "for_s": _seconds(hold.until_ms - now)}
            for hold in snapshot.holds
        ],
        back_offs=[
            {"group": off.group, "failures": off.failures, "for_s": _seconds(off.until_ms - now)}
            for off in snapshot.back_offs
        ],
        usage={name: _amounts(used) for name, used in sorted(snapshot.usage.items())},
        owner_usage={queue: dict(used) for queue, used in sorted(snapshot.owner_usage.items())},
    )


def _amounts(amounts: Resources) -> Mapping[str, int]:
    return {
        "gpu_milli": amounts.milli_gpu,
        "cpu_milli": amounts.milli_cpu,
        "memory_bytes": amounts.memory_bytes,
    }
