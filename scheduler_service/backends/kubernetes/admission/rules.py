"""Which rules a request is put to: by the path that the webhook configuration names. Pure."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.facts import Facts, Wants
from scheduler_service.backends.kubernetes.admission.forged import (
    group_forgeries,
    owner_forgeries,
    pod_forgeries,
)
from scheduler_service.backends.kubernetes.admission.mutate import pod_patch
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.others import others_answer
from scheduler_service.backends.kubernetes.admission.pod_groups import group_object_answer
from scheduler_service.backends.kubernetes.admission.pods import (
    SHARE_KEYS,
    asks_share,
    changed,
    has_container_gpu,
    places,
    scheduler_of,
)
from scheduler_service.backends.kubernetes.admission.queue_access import (
    asked_queue,
    named_queue,
    queue_answer,
)
from scheduler_service.backends.kubernetes.admission.queues import queue_object_answer
from scheduler_service.backends.kubernetes.admission.review import (
    ALLOWED,
    CREATE,
    DELETE,
    Answer,
    Request,
    annotations_of,
    items,
    text,
)
from scheduler_service.backends.kubernetes.admission.shares import share_refusals
from scheduler_service.backends.kubernetes.admission.topologies import topology_answer

MUTATE_POD = "/mutate--v1-pod"
VALIDATE_POD = "/validate--v1-pod"
VALIDATE_OTHERS = "/validate--v1-pod-of-others"
VALIDATE_WORKLOAD = "/validate-workload"
VALIDATE_QUEUE = "/validate-scheduling-run-ai-v2-queue"
VALIDATE_GROUP = "/validate-scheduling-run-ai-v2alpha2-podgroup"
VALIDATE_TOPOLOGY = "/validate-kai-scheduler-v1alpha1-topology"

Rule = Callable[[Request, Facts, Options, str], Answer]


def wants(path: str, request: Request, options: Options) -> Wants:
    """Return which facts the rules of a path need beyond the queues that are known."""
    if path == VALIDATE_QUEUE:
        parent = text(request.object, "spec", "parentQueue")
        return Wants(
            queues=frozenset({parent} - {""}),
            workloads_of=request.name if request.operation == DELETE else "",
        )
    if path == MUTATE_POD:
        return Wants(
            runtime_class=options.fraction_runtime_class if asks_share(request.object) else ""
        )
    if path not in {VALIDATE_POD, VALIDATE_WORKLOAD, VALIDATE_GROUP}:
        return Wants()
    queue = named_queue(request, options)
    group = ""
    if path == VALIDATE_POD and request.operation == CREATE:
        group = text(annotations_of(request.object), names.POD_GROUP_ANNOTATION)
    return Wants(queues=frozenset({queue} - {""}), group=group)


def judge(path: str, request: Request, facts: Facts, options: Options, *, token: str) -> Answer:
    """Return the answer to a request. `token` is fresh for each, for names that nobody else has."""
    rule = RULES.get(path)
    return ALLOWED if rule is None else rule(request, facts, options, token)


def _mutate(request: Request, facts: Facts, options: Options, token: str) -> Answer:
    if not request.is_new or scheduler_of(request.object) != options.scheduler_name:
        return ALLOWED
    patch = pod_patch(
        request.object, options, token=token, has_runtime_class=facts.has_runtime_class
    )
    return Answer(patch=patch)


def _validate_pod(request: Request, facts: Facts, options: Options, _token: str) -> Answer:
    if scheduler_of(request.object) != options.scheduler_name:
        return ALLOWED
    refusals = [*pod_forgeries(request, facts, options)]
    if request.is_new or _share_changed(request):
        refusals = [*share_refusals(request.object, options), *refusals]
    if request.is_new and options.block_visible_devices:
        refusals += _visible_devices(request)
    return Answer(tuple(refusals)) + queue_answer(request, facts, options)


def _share_changed(request: Request) -> bool:
    old, new = annotations_of(request.old), annotations_of(request.object)
    return any(changed(old, new, key) for key in SHARE_KEYS)


def _visible_devices(request: Request) -> list[str]:
    """Containers with GPUs of their own get them from the device plug-in, never by naming them."""
    return [
        f"The container '{place.name}' sets {names.ENV_VISIBLE_DEVICES} itself; which GPUs it sees is "
        "decided when it is placed. Take the variable away."
        for place in places(request.object)
        if has_container_gpu(place.container)
        for entry in items(place.container, "env")
        if text(entry, "name") == names.ENV_VISIBLE_DEVICES
        and ("valueFrom" in entry or text(entry, "value") not in {"void", "none"})
    ]


def _validate_others(request: Request, _facts: Facts, options: Options, _token: str) -> Answer:
    return others_answer(request, options)


def _validate_workload(request: Request, facts: Facts, options: Options, _token: str) -> Answer:
    """Whoever names a queue, or an owner, is judged then; the pods are made by a controller later."""
    if request.operation == DELETE:
        return ALLOWED
    forged = Answer(tuple(owner_forgeries(request, options)))
    if not asked_queue(request.object, options):
        return forged
    return forged + queue_answer(request, facts, options)


def _validate_queue(request: Request, facts: Facts, options: Options, _token: str) -> Answer:
    return queue_object_answer(request, facts, options)


def _validate_group(request: Request, facts: Facts, options: Options, _token: str) -> Answer:
    forged = Answer(tuple(group_forgeries(request, options)))
    return group_object_answer(request) + forged + queue_answer(request, facts, options)


def _validate_topology(request: Request, _facts: Facts, _options: Options, _token: str) -> Answer:
    return topology_answer(request)


RULES: dict[str, Rule] = {
    MUTATE_POD: _mutate,
    VALIDATE_POD: _validate_pod,
    VALIDATE_OTHERS: _validate_others,
    VALIDATE_WORKLOAD: _validate_workload,
    VALIDATE_QUEUE: _validate_queue,
    VALIDATE_GROUP: _validate_group,
    VALIDATE_TOPOLOGY: _validate_topology,
}
