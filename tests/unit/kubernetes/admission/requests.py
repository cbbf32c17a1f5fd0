"""Small builders: a request to admission in one line."""

import copy

from scheduler_service.backends.kubernetes.admission.facts import Facts, QueueFacts
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.review import Request

ANA = "ana@example.com"
OURS = "system:serviceaccount:kai-scheduler:kai-scheduler"
JOBS = "system:serviceaccount:kube-system:job-controller"
OPTIONS = Options()


def pod(
    *, labels=None, annotations=None, owner="", node="", limits=None, scheduler="kai-scheduler"
):
    container = {"name": "main", "image": "example.local/box"}
    if limits:
        container["resources"] = {"limits": limits}
    meta = {"name": "work", "namespace": "team-a"}
    meta |= {"labels": labels} if labels else {}
    meta |= {"annotations": annotations} if annotations else {}
    if owner:
        meta["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": owner}]
    spec = {"schedulerName": scheduler, "containers": [container]}
    return {"metadata": meta, "spec": spec | ({"nodeName": node} if node else {})}


def creation(obj, *, user=ANA, groups=(), kind="Pod", namespace="team-a", name="work"):
    return Request(
        uid="u1",
        operation="CREATE",
        kind=kind,
        name=name,
        namespace=namespace,
        user=user,
        groups=frozenset(groups),
        object=obj,
    )


def change(old, new, *, user=ANA, groups=(), kind="Pod"):
    return Request(
        operation="UPDATE",
        kind=kind,
        name="work",
        namespace="team-a",
        user=user,
        groups=frozenset(groups),
        object=new,
        old=old,
    )


def relabelled(of, **labels):
    new = copy.deepcopy(of)
    new["metadata"].setdefault("labels", {}).update(
        {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    )
    return new


def annotated(of, annotations):
    new = copy.deepcopy(of)
    new["metadata"].setdefault("annotations", {}).update(annotations)
    return new


def known(*queues, **more):
    """Facts with these queues: names, or QueueFacts."""
    facts = [queue if isinstance(queue, QueueFacts) else QueueFacts(queue) for queue in queues]
    return Facts(queues={queue.name: queue for queue in facts}, **more)
