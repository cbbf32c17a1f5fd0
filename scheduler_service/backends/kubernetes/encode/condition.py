"""What conditions say of waiting pods and groups, in KAI's words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.decode.groups import SchedulingCondition
from scheduler_service.backends.kubernetes.encode.status import quantity
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model import reasons
from scheduler_service.model.reasons import Reason, sentence

FREE_TEXT = "PodSchedulingErrors"
_WORDS: Mapping[type, str] = {
    reasons.NonPreemptibleOverQuota: names.REASON_NON_PREEMPTIBLE_OVER_QUOTA,
    reasons.OverLimit: names.REASON_OVER_LIMIT,
    reasons.QueueMissing: names.REASON_QUEUE_MISSING,
    reasons.PreemptionDelay: names.REASON_PREEMPTION_DELAY,
}
_RESOURCES = {"gpu": names.GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}


def unschedulable(pod: RawPod, message: str, now: str) -> dict[str, Any]:
    """Return the patch of a pod's status that autoscalers and people read; only this version of the pod takes it."""
    condition = {
        "type": names.POD_SCHEDULED,
        "status": "False",
        "reason": names.UNSCHEDULABLE,
        "message": message,
        "lastTransitionTime": now,
    }
    meta = pod.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    }


def says(pod: RawPod, message: str) -> bool:
    """Whether the pod's condition says that already."""
    told = pod.status.condition(names.POD_SCHEDULED)
    return (
        told is not None
        and told.status == "False"
        and told.reason == names.UNSCHEDULABLE
        and told.message == message
    )


def with_verdict(
    told: Iterable[SchedulingCondition], pool: str, why: Iterable[Reason], message: str, now: str
) -> list[dict[str, Any]] | None:
    """Return a group's conditions with our pool's newest verdict last; None where they say it already."""
    before = [*told]
    mine = [each for each in before if each.node_pool == pool]
    newest = max((_number(each) for each in before), default=0)
    if len(mine) == 1 and mine[0].message == message and _number(mine[0]) == newest:
        return None
    verdict = {
        "type": names.UNSCHEDULABLE_ON_POOL,
        "nodePool": pool,
        "status": "True",
        "reason": names.UNSCHEDULABLE,
        "message": message,
        "transitionID": str(newest + 1),
        "lastTransitionTime": now,
        "reasons": [_told(reason) for reason in dict.fromkeys(why)],
    }
    return [*(_table(each) for each in before if each.node_pool != pool), verdict]


def _number(condition: SchedulingCondition) -> int:
    return int(condition.transition_id) if condition.transition_id.isdigit() else 0


def _table(condition: SchedulingCondition) -> dict[str, Any]:
    """Return another pool's condition as it was."""
    found: dict[str, Any] = {
        "type": condition.type,
        "nodePool": condition.node_pool,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "transitionID": condition.transition_id,
    }
    if condition.last_transition_time:
        found["lastTransitionTime"] = condition.last_transition_time
    if condition.reasons:
        found["reasons"] = [dict(each) for each in condition.reasons]
    return found


def _told(reason: Reason) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reason": _WORDS.get(type(reason), FREE_TEXT),
        "message": sentence(reason),
    }
    details = _queue_details(reason)
    if details:
        found["details"] = {"queueDetails": details}
    return found


def _queue_details(reason: Reason) -> dict[str, Any]:
    """Return the numbers of a queue's no, for programs."""
    if isinstance(reason, reasons.QueueMissing):
        return {"name": reason.queue}
    if isinstance(reason, reasons.OverLimit):
        return {
            "name": reason.queue,
            "queueResourceLimits": _amount(reason.resource, reason.limit),
            "queueAllocatedResources": _amount(reason.resource, reason.allocated),
            "podGroupRequestedResources": _amount(reason.resource, reason.requested),
        }
    if isinstance(reason, reasons.NonPreemptibleOverQuota):
        return {
            "name": reason.queue,
            "queueDeservedResources": _amount(reason.resource, reason.quota),
            "queueAllocatedNonPreemptibleResources": _amount(reason.resource, reason.allocated),
            "podGroupRequestedNonPreemptibleResources": _amount(reason.resource, reason.requested),
        }
    return {}


def _amount(resource: str, amount: int) -> dict[str, str]:
    """Return an amount (bytes, or thousandths of all else) as the API writes it."""
    milli = 1000 * amount if resource == "memory" else amount
    return {_RESOURCES.get(resource, resource): quantity(milli)}
