"""Writes what groups and queues ask for and hold into their statuses: what changed, a while after it changed.

Rules: 1. A group's totals are made from its pods of now, a queue's from its groups and the queues below it; nothing is
carried over. 2. Only a difference is written. 3. A change waits a little, so that a start costs one write, and a
group's longer while pods are being started, which is what people wait for.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.controllers import totals as of
from scheduler_service.backends.kubernetes.controllers.totals import Totals
from scheduler_service.backends.kubernetes.controllers.work import Work
from scheduler_service.backends.kubernetes.decode import nodes as of_nodes
from scheduler_service.backends.kubernetes.decode.groups import (
    Classes,
    RawPodGroup,
    ResourcesStatus,
    preemptibility_of,
)
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.queues import QueueStatus, RawQueue
from scheduler_service.backends.kubernetes.decode.stores import Stores
from scheduler_service.backends.kubernetes.encode.status import queue_patch, resources_patch
from scheduler_service.backends.kubernetes.errors import KubeError, NotFound
from scheduler_service.backends.kubernetes.objects import RawNode, RawPod
from scheduler_service.model.pod_group import Preemptibility

log = logging.getLogger("kai.statuses")
EMPTY = Totals()


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a change waits before it is written."""

    group_s: float = 2.0
    queue_s: float = 1.0


class Statuses:
    """Keeps `totals` of all groups and `queues`, and writes them as long as `run` runs."""

    def __init__(
        self,
        writes: Writes,
        stores: Stores,
        members: Mapping[str, set[str]],
        pace: Pace | None = None,
    ) -> None:
        self.totals: dict[str, Totals] = {}
        self._writes = writes
        self._stores = stores
        self._members = members
        self._pace = pace or Pace()
        self._queue_of: dict[str, str] = {}
        self._own: dict[str, Totals] = defaultdict(Totals)
        self._classes = Classes.of(stores.classes)
        self.groups = Work(self._write_group, workers=4, before=writes.lull.wait)
        self.queue_work = Work(self._write_queues, workers=1)

    # -- what changed ------------------------------------------------------------------------------------
    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Take note of a pod that came, changed or went."""
        if old is not None and new is not None and _counted(old) == _counted(new):
            return
        for pod in (old, new):
            if pod is not None and (key := group_key(pod)):
                self.groups.mark(key, self._pace.group_s)

    def group_changed(self, old: RawPodGroup | None, new: RawPodGroup | None) -> None:
        """Take note of a group that came, changed or went."""
        if new is None and old is not None:
            self._book(old.metadata.key, "", EMPTY)
            self.groups.forget(old.metadata.key)
        elif new is not None and (old is None or old.spec != new.spec):
            self.groups.mark(new.metadata.key, self._pace.group_s)

    def queue_changed(self, old: RawQueue | None, new: RawQueue | None) -> None:
        """Take note of a queue that came, changed or went."""
        if old is None or new is None or old.spec != new.spec:
            self._mark_queues()

    def class_changed(self, _old: object, _new: object) -> None:
        """Take note that priorities changed."""
        self._classes = Classes.of(self._stores.classes)
        for key in self._stores.groups:
            self.groups.mark(key, self._pace.group_s)

    def node_changed(self, old: RawNode | None, new: RawNode | None) -> None:
        """Take note that the memory of a node's GPUs became known, or another."""
        if old is None or new is None or _memory(old) == _memory(new):
            return
        for pod in self._stores.pods.values():
            if pod.spec.node_name == new.metadata.name and (key := group_key(pod)):
                self.groups.mark(key, self._pace.group_s)

    def _mark_queues(self) -> None:
        self.queue_work.mark("", self._pace.queue_s)

    # -- what is so ----------------------------------------------------------------------------------------
    def queues(self) -> dict[str, Totals]:
        """Return the totals of all queues, with what is below each."""
        return of.of_queues(self._own, self._parents())

    def _parents(self) -> dict[str, str]:
        return {name: raw.spec.parent_queue for name, raw in self._stores.queues.items()}

    def _counted(self, group: RawPodGroup) -> Totals:
        spec = group.spec
        priority = self._classes.value(spec.priority_class_name)
        preemptibility = preemptibility_of(spec.preemptibility, priority)
        pods = (self._stores.pods.get(key) for key in self._members.get(group.metadata.key, ()))
        return of.of_group(
            (pod for pod in pods if pod is not None),
            preemptible=preemptibility is not Preemptibility.NON_PREEMPTIBLE,
            memory=self._memory_of,
        )

    def _memory_of(self, node: str) -> int | None:
        raw = self._stores.nodes.get(node)
        return None if raw is None else _memory(raw)

    def _book(self, key: str, queue: str, found: Totals) -> None:
        """Take over a group's totals into its queue's."""
        before, where = self.totals.pop(key, EMPTY), self._queue_of.pop(key, queue)
        if queue:
            self.totals[key], self._queue_of[key] = found, queue
        if (where, before) == (queue, found):
            return
        self._own[where] += -before
        if queue:
            self._own[queue] += found
        self._mark_queues()

    # -- the writes ----------------------------------------------------------------------------------------
    async def _write_group(self, key: str) -> bool:
        group = self._stores.groups.get(key)
        if group is None:
            return True
        found = self._counted(group)
        self._book(key, group.spec.queue, found)
        told = group.status.resources_status
        if _says(told, found):
            return True
        meta = group.metadata
        patch = resources_patch(meta.uid, told, _texts(found))
        return await self._write(
            names.POD_GROUPS.path(meta.namespace, meta.name, "status"), patch, key
        )

    async def _write_queues(self, _key: str) -> bool:
        found, children = self.queues(), of.children_of(self._parents())
        is_done = True
        for name, raw in [*self._stores.queues.items()]:
            mine = children.get(name, [])
            if _says(raw.status, found[name]) and list(raw.status.child_queues) == mine:
                continue
            patch = queue_patch(raw.metadata.uid, raw.status, _texts(found[name]), mine)
            path = names.QUEUES.path(None, name, "status")
            is_done = await self._write(path, patch, name) and is_done
        return is_done

    async def _write(self, path: str, patch: object, key: str) -> bool:
        try:
            await self._writes.later("PATCH", path, patch)
        except NotFound:
            return True
        except KubeError as error:
            log.info("the status of %s was not written: %s", key, error)
            return False
        return True


def _memory(node: RawNode) -> int | None:
    return of_nodes.gpu_memory_mib(node.metadata.labels)


def _counted(pod: RawPod) -> tuple[object, ...]:
    """Return what of a pod the totals depend on."""
    return pod.metadata.annotations, pod.spec, pod.is_over


def _texts(found: Totals) -> dict[str, dict[str, str]]:
    return {
        "requested": of.quantities(found.requested),
        "allocated": of.quantities(found.allocated),
        "allocatedNonPreemptible": of.quantities(found.allocated_non_preemptible),
    }


def _says(told: ResourcesStatus | QueueStatus, found: Totals) -> bool:
    return (
        of.are_equal(told.requested, found.requested)
        and of.are_equal(told.allocated, found.allocated)
        and of.are_equal(told.allocated_non_preemptible, found.allocated_non_preemptible)
    )
