"""Tells waiting pods, their groups and their owners why they wait: conditions and events, on change only.

Rules: 1. A verdict is told when it has stood for a while and no pod of its group came meanwhile, so that nothing wrong
is said of a gang whose objects are still arriving; sooner where all that must start together is there. 2. The same kind
of verdict with other numbers is told again only now and then. 3. What the API says already is not written. 4. A pod's
condition is written for the version that was looked at: it never covers a binding. 5. Conditions of a group go when
nothing of it waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.controllers.news import (
    about_pod,
    of_group,
    of_owner,
    of_pod,
)
from scheduler_service.backends.kubernetes.controllers.recorder import Recorder, now_text
from scheduler_service.backends.kubernetes.controllers.work import Work
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup, is_released
from scheduler_service.backends.kubernetes.decode.pods import group_key, group_name
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.encode.condition import (
    says,
    unschedulable,
    with_verdict,
)
from scheduler_service.backends.kubernetes.encode.event import EventType, News
from scheduler_service.backends.kubernetes.errors import Conflict, KubeError, NotFound
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.model.plan import Plan, Waiting
from scheduler_service.model.reasons import (
    BackingOff,
    NonPreemptibleOverQuota,
    NotReady,
    OverLimit,
    QueueMissing,
    QueueNotLeaf,
    Reason,
    WaitsForRelease,
    sentence,
)

log = logging.getLogger("kai.verdicts")
_NO_VERDICT = (BackingOff, WaitsForRelease)
"""Says when, not why: what was told before stays."""
BY_QUEUE = (NonPreemptibleOverQuota, OverLimit, QueueMissing, QueueNotLeaf)


@dataclass(frozen=True, slots=True)
class Settling:
    """How long a verdict must have stood, and how often the same one with other numbers is told."""

    settle_s: float = 2.0
    complete_s: float = 0.5
    """The same for a group that has all it needs to start: only its place is missing."""
    again_s: float = 60.0
    missing_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict: its kind, and since when it stands, by our own clock."""

    waiting: Waiting
    reason: Reason
    since: float

    @property
    def kind(self) -> type:
        """What kind of verdict it is."""
        return type(self.reason)

    @property
    def text(self) -> str:
        """The sentence that is told."""
        return sentence(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What verdicts are told of: the pods and groups that are followed, and what can not be read of pods."""

    stores: Stores
    members: Mapping[str, set[str]]
    scope: Callable[[], Scope]
    troubles: Mapping[str, str]


class Verdicts:
    """`decided` hears each plan; `run` writes what follows from it."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        recorder: Recorder,
        sight: Sight,
        *,
        settling: Settling | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._writes = writes
        self._recorder = recorder
        self._sight = sight
        self._settling = settling or Settling()
        self._clock = clock
        self._standing: dict[str, Said] = {}
        self._arrived: dict[str, float] = {}
        self._told: dict[str, tuple[type, str, float]] = {}
        self._unplaced: set[str] = set()
        self.work = Work(self._look, workers=4)

    # -- what changed ------------------------------------------------------------------------------------
    def decided(self, plan: Plan) -> None:
        """Take over who waits, and why."""
        now = self._clock()
        before, self._standing = self._standing, {}
        for waiting in plan.waiting:
            reason, known = _first_reason(waiting), before.pop(waiting.group, None)
            if known is not None and (reason == known.reason or _is_no_verdict(reason)):
                self._standing[waiting.group] = known
            elif reason is not None and not _is_no_verdict(reason):
                is_same = known is not None and known.kind is type(reason)
                since = known.since if known is not None and is_same else now
                said = self._standing[waiting.group] = Said(waiting, reason, since)
                self.work.mark(waiting.group, self._settle_s(said))
        for group in before:
            self.work.mark(group, self._settling.settle_s)

    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Note that a pod came, was placed, or went."""
        pod = new or old
        key = "" if pod is None else group_key(pod)
        if not key:
            return
        if new is None or old is None or bool(old.spec.node_name) != bool(new.spec.node_name):
            self.work.mark(key, self._settling.settle_s)
        elif group_key(old) != key:
            old = None
        if new is not None and old is None and _waits(new, self._sight.scope()):
            self._arrived[key] = self._clock()
            self._unplaced.add(key)
            self.work.mark(key, self._settling.settle_s)

    def is_held_by_queue(self, group: str) -> bool:
        """Whether it is a queue's bound that keeps a group waiting, and not a lack of room."""
        said = self._standing.get(group)
        return said is not None and issubclass(said.kind, BY_QUEUE)

    async def run(self) -> None:
        """Tell for ever; end it by cancelling the task."""
        await self.work.run()

    # -- one group -----------------------------------------------------------------------------------------
    async def _look(self, key: str) -> bool:
        try:
            await self._tell(key)
        except (Conflict, NotFound):
            if key in self._sight.stores.groups:
                self.work.mark(key, self._settling.settle_s)
        except KubeError as error:
            log.info("why %s waits was not written: %s", key, error)
            return False
        return True

    async def _tell(self, key: str) -> None:
        members = self._pods(key)
        waiting = [pod for pod in members if _waits(pod, self._sight.scope())]
        group = self._sight.stores.groups.get(key)
        if not members:
            for table in (self._arrived, self._told):
                table.pop(key, None)
        if group is None:
            self._without_group(key, waiting)
        elif not self._sight.scope().has(dict(group.metadata.labels)):
            return  # another shard's
        elif waiting:
            await self._single_faults(group, waiting)
            await self._tell_why(group, waiting)
        else:
            await self._nothing_waits(group, members)

    async def _tell_why(self, group: RawPodGroup, waiting: list[RawPod]) -> None:
        """Tell the verdict that stands, once it has settled."""
        key = group.metadata.key
        said = self._standing.get(key)
        if said is None or is_released(group):
            return
        if (left := self._left(key, said)) > 0:
            self.work.mark(key, left)
            return
        if said.kind is NotReady:
            self._news(group, names.EVENT_NOT_READY, said.text, "Normal")
        else:
            await self._unschedulable(group, waiting, said)
        self._told[key] = (said.kind, said.text, self._clock())

    def _pods(self, key: str) -> list[RawPod]:
        names_ = sorted(self._sight.members.get(key, ()))
        found = (self._sight.stores.pods.get(name) for name in names_)
        return [pod for pod in found if pod is not None]

    def _left(self, key: str, said: Said) -> float:
        """Return for how long the verdict has to wait still."""
        settle = self._settle_s(said)
        moments = [said.since + settle, self._arrived.get(key, 0.0) + settle]
        kind, text, at = self._told.get(key, (None, "", 0.0))
        if kind is said.kind and text != said.text:
            moments.append(at + self._settling.again_s)
        return max(moments) - self._clock()

    def _settle_s(self, said: Said) -> float:
        """Return how long a verdict must have stood."""
        return self._settling.settle_s if said.kind is NotReady else self._settling.complete_s

    def _without_group(self, key: str, waiting: Iterable[RawPod]) -> None:
        """Tell pods that their group is not there, once it could have come."""
        left = self._arrived.get(key, 0.0) + self._settling.missing_s - self._clock()
        if left > 0:
            self.work.mark(key, left)
            return
        for pod in waiting:
            text = f"Its pod group {group_name(pod)} does not exist. Create it, or remove the annotation."
            self._recorder.tell(
                News(of_pod(pod), "Warning", names.EVENT_GROUPER_WARNING, text, "Grouping")
            )

    async def _nothing_waits(self, group: RawPodGroup, members: list[RawPod]) -> None:
        """Take back what was said of a group, and tell its owner once that all have a place."""
        key = group.metadata.key
        self._told.pop(key, None)
        if group.status.scheduling_conditions:
            await self._write_conditions(group, [])
        placed = [pod for pod in members if pod.spec.node_name]
        if key in self._unplaced and placed:
            self._unplaced.discard(key)
            owner = of_owner(group)
            if owner is not None and owner.kind != "Pod":
                text = f"All {len(placed)} pods of it have a place." if len(placed) > 1 else _PLACED
                self._recorder.tell(
                    News(owner, "Normal", names.EVENT_SCHEDULED, text, "Scheduling")
                )

    async def _single_faults(self, group: RawPodGroup, waiting: list[RawPod]) -> None:
        """Tell pods that can not be scheduled as they are written, whatever their group does."""
        parts = {each.name for each in group.spec.sub_groups}
        for pod in waiting:
            text = self._sight.troubles.get(pod.key, "")
            part = pod.metadata.labels.get(names.SUB_GROUP_LABEL, "")
            if not text and parts and part not in parts:
                text = _no_such_part(part, group.metadata.name)
            if text:
                await self._mark_pod(pod, text)

    async def _unschedulable(self, group: RawPodGroup, waiting: list[RawPod], said: Said) -> None:
        text = said.text
        for pod in waiting:
            if pod.key not in self._sight.troubles:
                await self._mark_pod(pod, text, is_condition=group.spec.mark_unschedulable)
        self._news(group, names.UNSCHEDULABLE, text, "Warning")
        if any(pod.spec.node_name and not pod.is_over for pod in self._pods(group.metadata.key)):
            return
        told = group.status.scheduling_conditions
        pool = self._sight.scope().pool or names.DEFAULT_NODE_POOL
        found = with_verdict(told, pool, said.waiting.reasons, text, now_text())
        if found is not None:
            await self._write_conditions(group, found)

    async def _mark_pod(self, pod: RawPod, text: str, *, is_condition: bool = True) -> None:
        meta = pod.metadata
        if is_condition and not says(pod, text):
            path = names.PODS.path(meta.namespace, meta.name, "status")
            await self._client.patch(path, unschedulable(pod, text, now_text()), "strategic")
        self._recorder.tell(about_pod(pod, names.UNSCHEDULABLE, text))

    def _news(self, group: RawPodGroup, reason: str, text: str, kind: EventType) -> None:
        """Tell the group, and the owner where that is not one of the pods."""
        self._recorder.tell(News(of_group(group), "Normal", reason, text, "Scheduling"))
        owner = of_owner(group)
        if owner is not None and owner.kind != "Pod":
            self._recorder.tell(News(owner, kind, reason, text, "Scheduling", of_group(group)))

    async def _write_conditions(self, group: RawPodGroup, found: list[dict[str, object]]) -> None:
        meta = group.metadata
        path = names.POD_GROUPS.path(meta.namespace, meta.name, "status")
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"schedulingConditions": found},
        }
        await self._writes.patch(path, body)


_PLACED = "Its pod has a place."


def _first_reason(waiting: Waiting) -> Reason | None:
    """Return the main reason, without making a list of all: this is done for all who wait in every cycle."""
    for _, reasons in waiting.by_action:
        if reasons:
            return reasons[0]
    return None


def _is_no_verdict(reason: Reason | None) -> bool:
    return reason is None or isinstance(reason, _NO_VERDICT)


def _no_such_part(part: str, group: str) -> str:
    told = f"The pod group {group} has no sub-group {part!r}"
    if not part:
        told = f"The pod group {group} has sub-groups and the pod is in none"
    return f"{told}. Correct its label {names.SUB_GROUP_LABEL}."


def _waits(pod: RawPod, scope: Scope) -> bool:
    """Whether a pod of ours is there, wants a place and has none. Gated ones are not asked about."""
    return (
        not pod.spec.node_name
        and not pod.is_over
        and not pod.metadata.deletion_timestamp
        and not pod.spec.scheduling_gates
        and pod.spec.scheduler_name in scope.scheduler_names
    )
