"""A pod of ours as plain objects: what every kind of workload repeats in its template. Pure.

It meets the *restricted* standard, its account may do nothing, and no token of the Kubernetes API is in it. The one
token that it has is for us (audience `kai`): bound to this pod, renewed by the kubelet, worth nothing once it ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.workloads import variables
from scheduler_service.backends.kubernetes.workloads.amounts import share_of
from scheduler_service.backends.kubernetes.workloads.wish import Folder, Wish
from scheduler_service.wire.pod_group import Submit, Work
from scheduler_service.wire.travel import travelling

ENTRY = "scheduler_service.runner.in_pod"
ACCOUNT = "kai-work"
AUDIENCE = "kai"
TOKEN_S = 3600
TOKEN_FOLDER = "/run/kai/token"  # noqa: S105 - a place
SCRATCH = "/run/kai/work"
MANAGED_BY = {"app.kubernetes.io/managed-by": "kai-jupyter"}
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PREEMPTIBILITY = {True: "preemptible", False: "non-preemptible"}
_TRAVELS_APART = ("work", "signature", "process")
Table = dict[str, Any]


def metadata(wish: Wish, *, annotations: dict[str, str] | None = None) -> Table:
    """Return the metadata of the object that stands for the request: whose it is, and what was asked."""
    return {
        "name": wish.name,
        "namespace": wish.namespace,
        "labels": labels(wish),
        "annotations": {
            names.OWNER_ANNOTATION: wish.owner,
            names.ASKED_ANNOTATION: asked(wish.ask),
            **_payload(wish.ask),
            **(annotations or {}),
        },
    }


def labels(wish: Wish) -> dict[str, str]:
    """Return what grouping reads, and what finds all that belongs to the request."""
    found = {
        **MANAGED_BY,
        names.REQUEST_LABEL: wish.name,
        names.KIND_LABEL: wish.ask.kind,
        wish.rules.queue_label: wish.ask.queue or wish.rules.default_queue,
        names.PRIORITY_CLASS_LABEL: wish.priority_class,
    }
    if wish.ask.preemptible is not None:
        found[names.PREEMPTIBILITY_LABEL] = PREEMPTIBILITY[wish.ask.preemptible]
    return found


def asked(ask: Submit) -> str:
    """Return the request as it is kept with its object: without the work, which the pods carry."""
    plain = asdict(ask)
    default = asdict(Submit())
    kept = {k: v for k, v in plain.items() if k not in _TRAVELS_APART and v != default[k]}
    return json.dumps({"kind": ask.kind, **kept}, sort_keys=True, separators=(",", ":"))


def _payload(ask: Submit) -> dict[str, str]:
    digest = None if ask.work is None else ask.work.payload_sha256
    return {names.PAYLOAD_ANNOTATION: digest} if digest else {}


def template(
    wish: Wish, *, container: str = "main", more: list[variables.Variable] | None = None
) -> Table:
    """Return the pod template; `more` are the variables of a gang."""
    notes = share_of(wish.gpu)
    return {
        "metadata": {"labels": labels(wish), **({"annotations": notes} if notes else {})},
        "spec": spec(wish, container=container, more=more or []),
    }


def spec(wish: Wish, *, container: str, more: list[variables.Variable]) -> Table:
    """Return the spec of a pod with this one container."""
    rules, profile = wish.rules, wish.profile
    found: Table = {
        "schedulerName": rules.scheduler_name,
        "restartPolicy": "Never",
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": wish.ask.grace_s,
        "securityContext": {
            **POD_SECURITY,
            "runAsUser": rules.run_as_user,
            "runAsGroup": rules.run_as_group,
        },
        "containers": [_container(wish, container, more)],
        "volumes": _volumes(wish.folder),
    }
    if wish.ask.lease_s is not None and wish.ask.kind != "lease":  # its end can be moved later
        found["activeDeadlineSeconds"] = wish.ask.lease_s
    if profile.node_selector:
        found["nodeSelector"] = dict(profile.node_selector)
    if profile.tolerations:
        found["tolerations"] = [dict(each) for each in profile.tolerations]
    if profile.runtime_class:
        found["runtimeClassName"] = profile.runtime_class
    if wish.folder is not None and wish.folder.node:
        found["affinity"] = _only_on(wish.folder.node)
    return found


def command(wish: Wish) -> tuple[list[str], list[str]]:
    """Return command and arguments of the container."""
    work = wish.ask.work
    if wish.is_plain and work is not None and work.command:
        return [variables.plain(part) for part in work.command], []
    python = (work.python if work is not None else None) or "python"
    entry = [variables.plain(python), "-m", ENTRY]
    if _holds(work):
        place = ["--workdir", variables.plain(work.workdir)] if work and work.workdir else []
        return entry, ["--hold", *place]
    text = json.dumps(asdict(work), sort_keys=True, separators=(",", ":")) if work else "{}"
    return entry, ["--work", variables.plain(text), "--signature", wish.ask.signature or ""]


def _holds(work: Work | None) -> bool:
    """Whether a pod only holds its device, for the cells that its notebook sends."""
    return work is None or not (work.command or work.payload_sha256)


def _container(wish: Wish, name: str, more: list[variables.Variable]) -> Table:
    program, arguments = command(wish)
    work = wish.ask.work
    found: Table = {
        "name": name,
        "image": wish.image,
        "command": program,
        "args": arguments,
        "env": [*environment(wish), *more],
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": _mounts(wish),
        "terminationMessagePolicy": "File",
    }
    if wish.limits:
        found["resources"] = {"requests": dict(wish.limits), "limits": dict(wish.limits)}
    if wish.is_plain and work is not None and work.workdir:
        found["workingDir"] = work.workdir
    return found


def environment(wish: Wish) -> list[variables.Variable]:
    """Return the variables of a pod: those that were asked for, then what is ours to say."""
    rules = wish.rules
    work = wish.ask.work
    wanted = {} if work is None else work.env
    if _holds(work):  # a notebook's whole environment is offered, and what may not travel stays
        wanted = travelling(wanted, rules.environment)
    home = rules.home if wish.folder is not None else SCRATCH
    found = [
        *variables.chosen(wanted, rules.environment),
        variables.literal("HOME", home),
        variables.literal("KAI_SERVICE_URL", rules.service_url),
        variables.literal("KAI_POD_TOKEN_FILE", f"{TOKEN_FOLDER}/token"),
        variables.literal("KAI_POD_FOLDER", SCRATCH),
        variables.literal("KAI_POD_GROUP", wish.name),
        variables.field("KAI_INCARNATION", "metadata.uid"),
        variables.field("KAI_POD", "metadata.name"),
        variables.field("KAI_NAMESPACE", "metadata.namespace"),
        variables.field("KAI_NODE", "spec.nodeName"),
    ]
    if wish.folder is not None:
        found.append(variables.literal("KAI_SIGNING_KEY_FILE", f"{home}/{rules.signing_key}"))
    if wish.gpu is None:  # an image may say "all", and a runtime believe it
        found.append(variables.literal(names.ENV_VISIBLE_DEVICES, "void"))
    return found


def _volumes(folder: Folder | None) -> list[Table]:
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_S, "path": "token"}
    found: list[Table] = [
        {"name": "kai-token", "projected": {"sources": [{"serviceAccountToken": token}]}},
        {"name": "kai-work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    if folder is not None:
        found.append({"name": "folder", "persistentVolumeClaim": {"claimName": folder.claim}})
    return found


def _mounts(wish: Wish) -> list[Table]:
    found: list[Table] = [
        {"name": "kai-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
        {"name": "kai-work", "mountPath": SCRATCH},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the pod
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
    ]
    if wish.folder is not None:
        found.append({"name": "folder", "mountPath": wish.rules.home})
    return found


def _only_on(node: str) -> Table:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}
