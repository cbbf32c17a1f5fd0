"""What only our own accounts may write on pods and pod groups, and what nobody may change later. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.facts import Facts
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.pods import (
    SHARE_KEYS,
    changed,
    is_bound,
    owner_uids,
    uses_gpu,
)
from scheduler_service.backends.kubernetes.admission.review import (
    Object,
    Request,
    annotations_of,
    labels_of,
)
from scheduler_service.grouping import keys

OURS_ON_REQUESTS = (names.OWNER_ANNOTATION, names.ASKED_ANNOTATION, names.PAYLOAD_ANNOTATION)
"""On whatever our API makes: whose it is, what was asked, which payload its pods may fetch. Groups repeat them."""
OURS_ON_PODS = (
    *OURS_ON_REQUESTS,
    names.RECEIVED_TYPE,
    names.RESERVED_GPU,
    names.ASSIGNED_DEVICES,
    names.EVICTION_NOTICE,
    keys.RELEASED,
)
OURS_ON_GROUPS = (
    *OURS_ON_REQUESTS,
    names.STALE_SINCE,
    names.LAST_START,
    names.LAST_EVICTION,
)


def pod_forgeries(request: Request, facts: Facts, options: Options) -> Iterator[str]:
    """Yield what a pod claims that its author may not, a sentence each."""
    if options.is_trusted(request.user, request.groups):
        return
    old, new = request.old, request.object
    for key in OURS_ON_PODS:
        if changed(annotations_of(old), annotations_of(new), key):
            yield _not_yours("annotation", key)
    for key in sorted(_gpu_groups(old) | _gpu_groups(new)):
        if changed(labels_of(old), labels_of(new), key):
            yield _not_yours("label", key)
    if request.is_new:
        yield from _on_creation(request, facts)
    else:
        yield from _on_change(old, new, options)


def group_forgeries(request: Request, options: Options) -> Iterator[str]:
    """Yield what a pod group claims that its author may not, a sentence each."""
    if options.is_trusted(request.user, request.groups):
        return
    for key in OURS_ON_GROUPS:
        if changed(annotations_of(request.old), annotations_of(request.object), key):
            yield _not_yours("annotation", key)


def owner_forgeries(request: Request, options: Options) -> Iterator[str]:
    """Yield what a workload says of its origin that its author may not, a sentence each."""
    if options.is_trusted(request.user, request.groups):
        return
    for key in OURS_ON_REQUESTS:
        if changed(annotations_of(request.old), annotations_of(request.object), key):
            yield (
                f"The annotation {key} is written by our API alone: it says whose request this is. "
                "Leave it out; ask through the API, or make the object without it."
            )


def _not_yours(what: str, key: str) -> str:
    return (
        f"The {what} {key} is written by the scheduler alone: it says what was decided. "
        "Leave it as it is, and out of copies of a pod."
    )


def _gpu_groups(pod: Object) -> set[str]:
    return {
        key
        for key in labels_of(pod)
        if key == names.GPU_GROUP_LABEL or key.startswith(names.GPU_GROUP_PREFIX)
    }


def _on_creation(request: Request, facts: Facts) -> Iterator[str]:
    pod, group = request.object, facts.group
    if is_bound(pod) and uses_gpu(pod):
        yield (
            "The pod names its node itself (spec.nodeName), so no queue would be asked for its GPUs. "
            "Leave spec.nodeName out; a nodeSelector or node affinity chooses nodes."
        )
    if group is None:
        return
    is_foreign = bool(group.owner_uids) and not group.owner_uids & owner_uids(pod)
    is_of_other = bool(group.owner) and group.owner != request.user
    if is_foreign or is_of_other:
        yield (
            f"The pod group '{group.name}' belongs to other work, and this pod is no part of that. "
            f"Leave the annotation {names.POD_GROUP_ANNOTATION} out, or name a group of your own."
        )


def _on_change(old: Object, new: Object, options: Options) -> Iterator[str]:
    for key in SHARE_KEYS:
        if changed(annotations_of(old), annotations_of(new), key):
            yield (
                f"The annotation {key} says what the pod was given or waits for; it can not change "
                "after its creation. Make a new pod with the new request."
            )
    if changed(annotations_of(old), annotations_of(new), names.POD_GROUP_ANNOTATION):
        yield (
            f"The annotation {names.POD_GROUP_ANNOTATION} can not change after the pod's creation: "
            "its group counts on it. Make a new pod."
        )
    if not is_bound(old):
        return
    for key in (
        options.queue_label,
        options.node_pool_label,
        names.PRIORITY_CLASS_LABEL,
        names.PREEMPTIBILITY_LABEL,
        names.SUB_GROUP_LABEL,
    ):
        if changed(labels_of(old), labels_of(new), key):
            yield (
                f"The label {key} of a pod that has its place can not change: its queue is charged "
                "for it as it is. Relabel the object that made the pod, or make a new pod."
            )
