"""The groups of a cluster as records: made when somebody looks, kept until something of them changes.

Rules: 1. What is there now is made from the objects alone. 2. Of groups that are gone the last record is kept for a
while, in memory: a new leader begins without. 3. Nothing here costs the scheduler more than a mark in a set, unless
somebody looks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.cluster import KubernetesCluster
from scheduler_service.backends.kubernetes.decode import nodes as of_nodes
from scheduler_service.backends.kubernetes.decode.groups import RawPodGroup
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.objects import RawNode, RawPod
from scheduler_service.ledger import events
from scheduler_service.service.cluster_pods import Member
from scheduler_service.service.cluster_records import gone, record_of
from scheduler_service.store.records import Ending, GroupRecord

MOST_GONE = 500
LONGEST_EXPECTED_MS = 120_000
MOST_MARKED = 20_000
"""With more changes than this since somebody looked, all is looked at anew."""


class ClusterRecords:
    """All groups that are scheduled here, and the last that were. `dirty` = what changed since it was emptied."""

    def __init__(self, cluster: KubernetesCluster, clock: Callable[[], int]) -> None:
        self.dirty: set[str] = set()
        self.is_flooded = False
        """Whether more changed than was marked."""
        self._cluster = cluster
        self._world = cluster.world
        self._clock = clock
        self._made: dict[str, GroupRecord] = {}
        self._shrinking: OrderedDict[str, GroupRecord] = OrderedDict()
        self._gone: OrderedDict[str, GroupRecord] = OrderedDict()
        self._ends: dict[str, Ending] = {}
        self.awaited: dict[str, GroupRecord] = {}
        """Groups whose objects were just made and are not in the book yet."""
        cluster.listen("pods", self._pod_changed)
        cluster.listen("groups", self._group_changed)
        cluster.listen("nodes", self._node_changed)
        cluster.on_events.append(self._told)

    # -- looking ---------------------------------------------------------------------------------
    def find(self, key: str) -> GroupRecord | None:
        """Return the group of that key, if there is (or lately was) one."""
        found = self._made.get(key)
        if found is not None:
            return found
        found = self._make(key, self._members(key))
        if found is None:
            return self._due(key) or self._gone.get(key)
        self._made[key] = found
        return found

    def __iter__(self) -> Iterator[GroupRecord]:
        told = self._world.told.groups
        keys = [*told, *(key for key in (*self.awaited, *self._gone) if key not in told)]
        for key in dict.fromkeys(keys):
            found = self.find(key)
            if found is not None:
                yield found

    def namespaces(self) -> set[str]:
        """Return where groups are, or lately were: who may see those may see how the last of them ended."""
        known = (*self._world.stores.groups, *self.awaited, *self._gone)
        return {key.partition("/")[0] for key in known}

    def live(self) -> list[GroupRecord]:
        """Return the groups that are not over."""
        found = (self.find(key) for key in [*self._world.told.groups])
        return [record for record in found if record is not None and not record.is_over]

    def raw(self, key: str) -> RawPodGroup | None:
        """Return the group's object, None where it is gone."""
        return self._world.stores.groups.get(key)

    def pods(self, record: GroupRecord) -> list[tuple[int, RawPod]]:
        """Return rank and object of each pod of a group that is there."""
        stores = self._world.stores.pods
        found = ((pod.rank, stores.get(f"{record.namespace}/{pod.name}")) for pod in record.pods)
        return [(rank, raw) for rank, raw in found if raw is not None]

    def rank_of(self, pod: str) -> tuple[str, int]:
        """Return group and rank of a pod, by its key; ("", 0) for one that is not known."""
        known = self._world.told.pods.get(pod)
        record = None if known is None else self.find(known.group)
        if record is None:
            return "", 0
        name = pod.partition("/")[2]
        return record.key, next((one.rank for one in record.pods if one.name == name), 0)

    def expect(self, record: GroupRecord) -> None:
        """Have a group be there whose objects were just made, until they are followed."""
        if self.find(record.key) is None or record.key in self._gone:
            self.awaited[record.key] = record
            self.mark(record.key)

    def _due(self, key: str) -> GroupRecord | None:
        """Return what is known of a group that is expected; nobody waits for it for ever."""
        record = self.awaited.get(key)
        if record is None or self._clock() - record.created_at < LONGEST_EXPECTED_MS:
            return record
        del self.awaited[key]
        return None

    def end(self, key: str, ending: Ending) -> None:
        """Have a group count as ending, and why: what its objects do not say."""
        self._ends[key] = ending
        self.mark(key)

    # -- making ----------------------------------------------------------------------------------
    def _members(self, key: str) -> list[Member]:
        stores, told = self._world.stores.pods, self._world.told.pods
        pairs = ((stores.get(name), told.get(name)) for name in self._world.pods_of.get(key, ()))
        return [Member(raw, pod) for raw, pod in pairs if raw is not None and pod is not None]

    def _make(
        self, key: str, members: Sequence[Member], raw: RawPodGroup | None = None
    ) -> GroupRecord | None:
        raw = raw or self._world.stores.groups.get(key)
        model = self._world.told.groups.get(key)
        if raw is None or model is None:
            return None
        record = record_of(raw, model, members, self._memory_of)
        ending = self._ends.get(key)
        if ending is None or (record.ending is not None and record.ending.how == "succeeded"):
            return record
        is_over = all(pod.is_finished for pod in record.pods)
        ended_at = (record.ended_at or ending.at) if is_over else None
        return replace(record, ending=ending, ended_at=ended_at)

    def _memory_of(self, node: str) -> int | None:
        raw = self._world.stores.nodes.get(node)
        return None if raw is None else of_nodes.gpu_memory_mib(raw.metadata.labels)

    # -- what changed ----------------------------------------------------------------------------
    def mark(self, key: str) -> None:
        """Take note that a group may read differently now."""
        if not key:
            return
        self._made.pop(key, None)
        if len(self.dirty) < MOST_MARKED:
            self.dirty.add(key)
        else:
            self.is_flooded = True

    def _pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        if old is not None and new is None:
            self._remember(old)
        for pod in (old, new):
            if pod is not None:
                self.mark(group_key(pod))

    def _remember(self, raw: RawPod) -> None:
        """Keep how a group was when the first of its pods went: the last word on it, should it be gone soon."""
        key, pod = group_key(raw), self._world.told.pods.get(raw.key)
        if not key or pod is None or key in self._shrinking:
            return
        record = self._make(key, [*self._members(key), Member(raw, pod)])
        if record is not None:
            _keep(self._shrinking, key, record)

    def _group_changed(self, old: RawPodGroup | None, new: RawPodGroup | None) -> None:
        either = new or old
        if either is None:
            return
        key = either.metadata.key
        if new is None:
            self._let_go(key, either)
        elif old is None:
            self._ends.pop(key, None)
            last = self._gone.pop(key, None)
            # Until a pod of the new one is seen: it may be the old one, made once more.
            if last is not None:
                _keep(self._shrinking, key, last)
        self.mark(key)

    def _let_go(self, key: str, raw: RawPodGroup) -> None:
        self.awaited.pop(key, None)
        members = self._members(key)
        last = self._shrinking.pop(key, None)
        if members or last is None:
            last = self._make(key, members, raw) or last
        ending = self._ends.pop(key, None)
        if last is not None:
            if ending is not None and not last.is_over:
                last = replace(last, ending=ending)
            _keep(self._gone, key, gone(last, self._clock()))

    def _node_changed(self, old: RawNode | None, new: RawNode | None) -> None:
        """Make records anew where the memory of a node's GPUs became known, or another."""
        labels = [{} if raw is None else raw.metadata.labels for raw in (old, new)]
        if of_nodes.gpu_memory_mib(labels[0]) != of_nodes.gpu_memory_mib(labels[1]):
            for key in [*self._made]:
                self.mark(key)

    def _told(self, news: Sequence[events.Event]) -> None:
        """Make records anew of what the ledger hears otherwise: also of what we did, and the API does not show yet."""
        for event in news:
            if isinstance(event, events.PodAdded):
                self.mark(event.pod.group)
                if event.pod.group in self._shrinking:
                    del self._shrinking[event.pod.group]
            elif isinstance(event, events.PodStateChanged):
                known = self._world.told.pods.get(event.key)
                self.mark("" if known is None else known.group)
            elif isinstance(event, events.PodGroupAdded | events.PodGroupChanged):
                self.awaited.pop(event.group.key, None)
                self.mark(event.group.key)


def _keep(kept: OrderedDict[str, GroupRecord], key: str, record: GroupRecord) -> None:
    kept[key] = record
    kept.move_to_end(key)
    while len(kept) > MOST_GONE:
        kept.popitem(last=False)
