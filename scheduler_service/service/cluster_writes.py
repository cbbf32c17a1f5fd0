"""What people change in a cluster through the API, and what they can not.

Rules: 1. The cluster says who may: the owner while they may make pods there, whoever may delete pods there, who leads
the queue, an admin. 2. A group whose pods something makes anew is ended where it was made. 3. Pods are never deleted,
they are evicted: disruption budgets and grace hold for people too.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from typing import Protocol

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.encode.eviction import eviction, notice
from scheduler_service.backends.kubernetes.errors import Forbidden, KubeError, NotFound, TooMany
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.backends.kubernetes.reviews import Deed
from scheduler_service.backends.kubernetes.workloads.wish import object_name
from scheduler_service.model.pod import PodRequest
from scheduler_service.model.reasons import Cancelled
from scheduler_service.ports import Caller
from scheduler_service.service import access, amounts, asking, room
from scheduler_service.service.cluster_core import ClusterCore, ClusterParts
from scheduler_service.service.cluster_records import asked_of, expected
from scheduler_service.service.refusals import not_found, refusal
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.wire.pod_group import (
    Cancel,
    Move,
    PodGroupView,
    Submit,
)
from scheduler_service.words.notes import key_taken

log = logging.getLogger("kai.audit")
AT_A_TIME = 16
OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
MOST_ASKED = 1_000
"""So many requests are remembered with their work, to tell whether one that comes again is the same."""


class Creator(Protocol):
    """Makes and ends what people ask for through the API."""

    async def create(
        self, caller: Caller, ask: Submit, idempotency_key: str | None
    ) -> tuple[str, str, bool]:
        """Make the objects of a request; return namespace, name, and whether it is new."""
        ...

    async def end(self, namespace: str, name: str, reason: str) -> None:
        """Delete the objects of a request."""
        ...


class ClusterWrites(ClusterCore):
    """The person's side of the cluster's door."""

    creator: Creator | None = None

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._asked: dict[str, Submit] = {}

    async def submit(
        self, caller: Caller, ask: Submit, *, idempotency_key: str | None
    ) -> tuple[PodGroupView, bool]:
        """Return the group and whether it is new. The same key by the same owner returns the first group again."""
        access.require_request(caller)
        if self.creator is None:
            raise _not_here(
                "This service only looks on: another scheduler decides, and nothing is made through it.",
                "Apply a Job or a pod that names that scheduler and a queue (kubectl apply); it shows here.",
            )
        _refuse_odd_names(ask)
        repeat = self._repeat(caller, ask, idempotency_key)
        if repeat is not None:
            return self._repeated(repeat, ask), False
        request = self._possible(ask)
        namespace, name, is_new = await self.creator.create(caller, ask, idempotency_key)
        key = f"{namespace}/{name}"
        made = expected(caller.user, ask, request, key=key, now=self.clock())
        if is_new:
            self._remember(made)
        self.records.expect(made)
        await self.freshen()
        record = self.records.find(key)
        if record is None or record.owner != caller.user:
            raise not_found(namespace, name)
        return (self.view(record, is_mine=True) if is_new else self._repeated(record, ask)), is_new

    def _repeat(
        self, caller: Caller, ask: Submit, idempotency_key: str | None
    ) -> GroupRecord | None:
        """Return the group that the caller made with this key before, whatever they called it."""
        if idempotency_key is None:
            return None
        for record in self.records:
            if record.owner != caller.user:
                continue
            told = object_name(
                ask, owner=caller.user, namespace=record.namespace, key=idempotency_key
            )
            if record.name.rpartition("-")[2] == told.rpartition("-")[2]:
                return record
        return None

    def _repeated(self, record: GroupRecord, ask: Submit) -> PodGroupView:
        """Return the group that has the key, with a note where something else is asked for now."""
        view = self.view(record, is_mine=True)
        before = self._asked.get(record.key)
        if before is None:  # another process took it: all but the work is known
            before = replace(record.ask, work=ask.work)
        is_same = asking.is_same(replace(ask, queue=before.queue), before)
        return view if is_same else replace(view, notes=(*view.notes, key_taken(record.name)))

    def _remember(self, made: GroupRecord) -> None:
        self._asked[made.key] = made.ask
        while len(self._asked) > MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def _possible(self, ask: Submit) -> PodRequest:
        """Return what each pod asks for. Raises the refusal of a request that waiting would not help."""
        request = amounts.pod_request(
            gpu=ask.gpu,
            gpu_memory=ask.gpu_memory,
            devices=ask.devices,
            cpu=ask.cpu,
            memory=ask.memory,
        )
        nodes = self.cluster.world.told.nodes.values()
        refused = room.never_fits(request, ask.min_members or max(1, ask.workers), nodes)
        if refused is not None:
            raise refused
        return request

    async def cancel(self, caller: Caller, namespace: str, name: str, ask: Cancel) -> PodGroupView:
        """End or withdraw a group; one that is over stays as it is."""
        access.require_request(caller)
        record = self.seen(caller, namespace, name)
        if record.is_over:
            return self.view_for(caller, record)
        await self.require_end(caller, record)
        grace = ask.grace_s
        if grace is not None and not 0 <= grace <= asking.LONGEST_GRACE_S:
            raise refusal(
                "bad_time", f"A grace of {grace} s is not possible.", "Write 0 to 3600 s."
            )
        text = ask.reason or f"Cancelled by {caller.user}."
        raw = self.records.raw(record.key)
        is_ours = bool(record.owner) and (raw is None or asked_of(raw) is not None)
        if is_ours and self.creator is not None:
            await self.creator.end(namespace, name, text)
        else:
            await self._evict_all(caller, record, grace)
        log.info("%s cancelled %s: %s", caller.user, record.key, ask.reason or "no reason given")
        is_release = (
            record.ask.kind == "lease"
            and record.granted_at is not None
            and caller.user == record.owner
        )
        ending = Ending(
            how="released" if is_release else "cancelled",
            at=self.clock(),
            by=caller.user,
            grace_s=record.ask.grace_s if grace is None else grace,
            text=text,
        )
        self.records.end(record.key, ending)
        return self.view_for(caller, self.records.find(record.key) or record)

    # -- who may -----------------------------------------------------------------------------------
    async def require_end(self, caller: Caller, record: GroupRecord) -> None:
        """Raise the refusal of who may not say when a group ends."""
        if access.leads(caller, record.queue) or await self.is_theirs(caller, record):
            return
        deed = Deed(verb="delete", resource=names.PODS, namespace=record.namespace)
        if not await self.rights.may(self.rights.person(caller), deed):
            raise refusal(
                "not_allowed",
                f"{caller.user} may not end what runs in the namespace {record.namespace}.",
                "That needs the right to delete pods there; its queue's lead may end it too.",
            )

    async def is_theirs(self, caller: Caller, record: GroupRecord) -> bool:
        """Whether the caller owns a group and may (still) make pods where it is: an annotation alone is no proof."""
        if not record.owner or record.owner != caller.user:
            return False
        deed = Deed(verb="create", resource=names.PODS, namespace=record.namespace)
        return await self.rights.may(self.rights.person(caller), deed)

    # -- ending ------------------------------------------------------------------------------------
    async def _evict_all(self, caller: Caller, record: GroupRecord, grace_s: int | None) -> None:
        pods = [raw for _, raw in self.records.pods(record) if not raw.is_over]
        if not self.ends_here(record):
            raise self._made_elsewhere(record)
        tasks = [self._evict(caller, raw, grace_s) for raw in pods]
        for part in (tasks[i : i + AT_A_TIME] for i in range(0, len(tasks), AT_A_TIME)):
            await asyncio.gather(*part)

    def _made_elsewhere(self, record: GroupRecord) -> Exception:
        """Return the refusal that names what would make the pods anew."""
        raw = self.records.raw(record.key)
        owner = next(iter(raw.metadata.owner_references), None) if raw is not None else None
        kind, name = ("object", "it") if owner is None else (owner.kind, owner.name)
        return refusal(
            "made_elsewhere",
            f"{record.name} belongs to the {kind} {name}, which would make its pods anew.",
            f"Delete that: kubectl delete {kind.lower()} {name} -n {record.namespace}",
            kind=kind,
            name=name,
        )

    async def _evict(self, caller: Caller, raw: RawPod, grace_s: int | None) -> None:
        meta = raw.metadata
        path = names.PODS.path(meta.namespace, meta.name)
        told = notice(raw, Cancelled(caller.user), by_group="", action="cancel", at_ms=self.clock())
        body = eviction(raw)
        if grace_s is not None:
            body["deleteOptions"]["gracePeriodSeconds"] = grace_s
        try:
            await self.cluster.client.patch(path, told)
            await self.cluster.client.post(f"{path}/eviction", body)
        except NotFound:
            return
        except TooMany as error:
            raise refusal(
                "held_by_budget",
                f"{meta.name} may not leave now: {error.message}",
                "Try again when more of its pods are ready, or ask who keeps the budget.",
            ) from error
        except Forbidden as error:
            raise _not_here(
                "The service may not end pods here: it only looks on.",
                f"Delete it where it is: kubectl delete pod {meta.name} -n {meta.namespace}",
            ) from error
        except KubeError as error:
            raise refusal("backend_failed", f"{error}", "Try again in a moment.") from error

    # -- what a cluster has no use for -------------------------------------------------------------
    async def move(self, caller: Caller, namespace: str, name: str, ask: Move) -> PodGroupView:
        """Refuse: a pod can not be carried over to another process."""
        del ask
        access.require_request(caller)
        self.seen(caller, namespace, name)
        raise refusal(
            "not_a_lease",
            "In a cluster a kernel's GPU is a pod of its own; it does not move.",
            "Ask for a new one.",
        )


def _refuse_odd_names(ask: Submit) -> None:
    """Raise the refusal of what is no name: names become parts of paths that our own account asks for."""
    namespace = None if ask.cluster is None else ask.cluster.namespace
    for what, name in (("namespace", namespace), ("queue", ask.queue)):
        if name is not None and not OBJECT_NAME.fullmatch(name):
            raise refusal(
                "bad_name",
                f"{name[:60]!r} can be the name of no {what}.",
                "Names have small letters, digits, dots and dashes, like team-a.",
            )


def _not_here(detail: str, hint: str) -> Exception:
    return refusal("not_here", detail, hint)
