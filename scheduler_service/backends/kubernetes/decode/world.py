"""From changes of the API to events of the ledger: what changed is looked at again and told if it reads differently.

Rules: 1. Events are made from what is known now, never from the change itself: after any fault a new world tells the
same. 2. What we did and the API does not show yet (a binding, an eviction) is laid over it until it does.
3. Nodes and groups are told before pods. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from scheduler_service.backends.kubernetes.decode import groups as of_groups
from scheduler_service.backends.kubernetes.decode import nodes as of_nodes
from scheduler_service.backends.kubernetes.decode import pods as of_pods
from scheduler_service.backends.kubernetes.decode.bindings import place_of, topology_of
from scheduler_service.backends.kubernetes.decode.needs import Needs, Storage, config_maps_of
from scheduler_service.backends.kubernetes.decode.overlay import Overlay
from scheduler_service.backends.kubernetes.decode.pods import Place
from scheduler_service.backends.kubernetes.decode.requests import BadShare
from scheduler_service.backends.kubernetes.decode.scoped import queues_in
from scheduler_service.backends.kubernetes.decode.selectors import YES, Rules
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.decode.telling import (
    differences,
    is_same_but_for_state,
    put,
    unschedulable,
)
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.ledger import events
from scheduler_service.model.node import Node
from scheduler_service.model.pod import HOLDS_RESOURCES, IS_WAITING, NodeAffinity, Pod
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import StaticVeto
from scheduler_service.model.topology import Topology


class Told:
    """What the ledger was told last, by kind and key."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.groups: dict[str, PodGroup] = {}
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, Topology] = {}
        self.pods: dict[str, Pod] = {}


class World:
    """The stores as the ledger's events. Whoever changes a store calls the method of its kind; `drain` tells."""

    def __init__(self, stores: Stores, scope: Scope) -> None:
        self.stores = stores
        self.scope = scope
        self.told = Told()
        self.overlay = Overlay()
        self.rules = Rules()
        self.needs = Needs(Storage(stores.volume_claims, stores.volumes, stores.storage_classes))
        self._vetoes: dict[str, str] = {}
        self._told_vetoes: dict[str, str] = {}
        self.troubles: dict[str, str] = {}
        """Pods that can not be scheduled as they are written, and why, in a sentence."""
        self.pods_on: dict[str, set[str]] = defaultdict(set)
        self.pods_of: dict[str, set[str]] = defaultdict(set)
        self.told_on: dict[str, set[str]] = defaultdict(set)
        """Pods that the ledger knows to hold something, by node."""
        self._dirty_pods: set[str] = set()
        self._told_otherwise: set[str] = set()
        self._dirty_nodes: set[str] = set()
        self._dirty_groups: set[str] = set()
        self._are_queues_dirty = True
        self._are_topologies_dirty = True
        self._classes = of_groups.Classes()
        self._requests_of: dict[str, str] = {}
        self.look_again()

    @property
    def is_dirty(self) -> bool:
        """Whether `drain` may have something to tell."""
        return bool(
            self._dirty_pods
            or self._dirty_nodes
            or self._dirty_groups
            or self._are_queues_dirty
            or self._are_topologies_dirty
        )

    def look_again(self) -> None:
        """Look at everything afresh (the scope changed, or the stores were filled without telling)."""
        self._classes = of_groups.Classes.of(self.stores.classes)
        for key, pod in self.stores.pods.items():
            self._index(key, None, pod)
        self._requests_of = {_pod_of_request(raw): key for key, raw in self.stores.requests.items()}
        self._dirty_pods |= self.stores.pods.keys() | self.told.pods.keys()
        self._dirty_nodes |= self.stores.nodes.keys() | self.told.nodes.keys()
        self._dirty_groups |= self.stores.groups.keys() | self.told.groups.keys()
        self._are_queues_dirty = self._are_topologies_dirty = True

    def rescope(self, scope: Scope) -> None:
        """Schedule another part of the cluster from now on."""
        if scope != self.scope:
            self.scope = scope
            self.look_again()

    # -- what changed ----------------------------------------------------------------------------------
    def pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Take note of a pod that came, changed or went."""
        either = new or old
        if either is None:
            return
        key = either.key
        self._index(key, old, new)
        self.overlay.pod_changed(key, new)
        self.look_at_pod(key)
        for pod in (old, new):
            if pod is not None and pod.spec.node_name and not self.is_ours(pod):
                self._dirty_nodes.add(pod.spec.node_name)

    def look_at_pod(self, key: str) -> None:
        """Look at a pod again at the next `drain`."""
        self._dirty_pods.add(key)
        pod = self.stores.pods.get(key) if self.overlay.counts_runtime else None
        if pod is not None and (group := of_pods.group_key(pod)):
            self._dirty_groups.add(group)

    def tell_again(self, key: str) -> None:
        """Tell how a pod is at the next `drain` even if that is as it was: the ledger was told otherwise meanwhile."""
        self._told_otherwise.add(key)
        self.look_at_pod(key)

    def need_changed(self, key: str) -> None:
        """Look again at the pods that wait for something ("claim a/b", "volume v", "class c", "config a/b")."""
        self._dirty_pods |= self.needs.wanting.get(key, set())

    def node_changed(self, old: Any, new: Any) -> None:
        """Take note of a node that came, changed or went."""
        name = (new or old).metadata.name
        self._dirty_nodes.add(name)
        if old is None or new is None or _memory_label(old) != _memory_label(new):
            self._dirty_pods |= self.pods_on.get(name, set())

    def group_changed(self, old: Any, new: Any) -> None:
        """Take note of a group that came, changed or went."""
        key = (new or old).metadata.key
        self._dirty_groups.add(key)
        before, after = _held_back(old, self.scope), _held_back(new, self.scope)
        if before != after or old is None or new is None:
            members = self.pods_of.get(key, set())
            self._dirty_pods |= members
            for name in members:
                pod = self.stores.pods.get(name)
                if pod is not None and pod.spec.node_name:
                    self._dirty_nodes.add(pod.spec.node_name)

    def queue_changed(self, _old: object, _new: object) -> None:
        """Take note of a queue that came, changed or went."""
        self._are_queues_dirty = True

    def topology_changed(self, _old: object, _new: object) -> None:
        """Take note of a topology that came, changed or went."""
        self._are_topologies_dirty = True

    def class_changed(self, _old: object, _new: object) -> None:
        """Take note of a priority class that came, changed or went."""
        self._classes = of_groups.Classes.of(self.stores.classes)
        self._dirty_groups |= self.stores.groups.keys()

    def request_changed(self, old: Any, new: Any) -> None:
        """Take note of a BindRequest that came, changed or went."""
        if old is not None:
            self._requests_of.pop(_pod_of_request(old), None)
        if new is not None:
            self._requests_of[_pod_of_request(new)] = new.metadata.key
        self.look_at_pod(_pod_of_request(new or old))

    # -- what is ours ------------------------------------------------------------------------------------
    def is_ours(self, pod: RawPod) -> bool:
        """Whether a pod is ours to place: it names our scheduler, and its group is not another pool's."""
        if pod.spec.scheduler_name not in self.scope.scheduler_names:
            return False
        group = self.stores.groups.get(of_pods.group_key(pod))
        return group is None or self.scope.has(dict(group.metadata.labels))

    def place(self, pod: RawPod) -> Place | None:
        """Return where a pod is being bound, if it is."""
        told = self.overlay.place(pod)
        if told is not None:
            return told
        request = self.stores.requests.get(self._requests_of.get(pod.key, ""))
        if request is None:
            return None
        owners = {owner.uid for owner in request.metadata.owner_references}
        is_other = bool(owners) and pod.metadata.uid not in owners
        return None if is_other else place_of(request)

    def _index(self, key: str, old: RawPod | None, new: RawPod | None) -> None:
        if old is not None:
            _drop(self.pods_on, old.spec.node_name, key)
            _drop(self.pods_of, of_pods.group_key(old), key)
        if new is not None:
            if new.spec.node_name:
                self.pods_on[new.spec.node_name].add(key)
            if group := of_pods.group_key(new):
                self.pods_of[group].add(key)

    # -- telling --------------------------------------------------------------------------------------------
    def drain(self) -> list[events.Event]:
        """Return, in an order the ledger can take, the events of all that reads differently now."""
        if not self.is_dirty:
            return []
        found: list[events.Event] = []
        found += self._topologies()
        queues = list(self._queues())
        groups = list(self._groups())
        pods = list(self._pods())
        if self.rules.are_new:
            self.rules.are_new = False
            self._dirty_nodes |= self.stores.nodes.keys()
            if self.rules.pods:
                self._dirty_pods |= self.stores.pods.keys()
                pods += self._pods()
        nodes = list(self._nodes())
        gone = [event for event in nodes if isinstance(event, events.NodeRemoved)]
        found += [event for event in nodes if not isinstance(event, events.NodeRemoved)]
        return [*found, *queues, *groups, *self._vetoes_told(), *pods, *gone]

    def _vetoes_told(self) -> Iterator[events.Event]:
        if self._vetoes != self._told_vetoes:
            self._told_vetoes = dict(self._vetoes)
            yield events.VetoesChanged(
                tuple(StaticVeto(key, why) for key, why in sorted(self._vetoes.items()))
            )

    def _topologies(self) -> Iterator[events.Event]:
        if not self._are_topologies_dirty:
            return
        self._are_topologies_dirty = False
        now = {name: topology_of(raw) for name, raw in self.stores.topologies.items()}
        for name in sorted(now.keys() | self.told.topologies.keys()):
            if now.get(name) != self.told.topologies.get(name):
                yield events.TopologyChanged(now.get(name) or Topology(name, ()))
        self.told.topologies = now

    def _queues(self) -> Iterator[events.Event]:
        if not self._are_queues_dirty:
            return
        self._are_queues_dirty = False
        now = queues_in(self.scope, self.stores.queues)
        yield from differences(
            now, self.told.queues, events.QueueAdded, events.QueueChanged, events.QueueRemoved
        )
        self.told.queues = now
        self._count_runtimes()

    def _count_runtimes(self) -> None:
        """Have the start of groups looked up from when on somebody asks how long they have been running."""
        counts = any(
            queue.preempt_min_runtime_ms or queue.reclaim_min_runtime_ms
            for queue in self.told.queues.values()
        )
        if counts != self.overlay.counts_runtime:
            self.overlay.counts_runtime = counts
            self._dirty_groups |= self.stores.groups.keys()

    def _nodes(self) -> Iterator[events.Event]:
        names, self._dirty_nodes = self._dirty_nodes, set()
        now = {name: node for name in names if (node := self.node(name)) is not None}
        told = {name: self.told.nodes[name] for name in names if name in self.told.nodes}
        yield from differences(now, told, events.NodeAdded, events.NodeChanged, events.NodeRemoved)
        for name in names:
            put(self.told.nodes, name, now.get(name))

    def node(self, name: str) -> Node | None:
        """Return a node as it is now, None where it is not (or not ours)."""
        raw = self.stores.nodes.get(name)
        if raw is None or not self.scope.has(dict(raw.metadata.labels)):
            return None
        pods = (self.stores.pods.get(key) for key in self.pods_on.get(name, ()))
        others = [
            pod for pod in pods if pod is not None and not pod.is_over and not self.is_ours(pod)
        ]
        extra = self.rules.labels_of_node(raw.metadata.labels, name) if self.rules.nodes else None
        return of_nodes.node_of(raw, others=others, extra_labels=extra)

    def _groups(self) -> Iterator[events.Event]:
        keys, self._dirty_groups = self._dirty_groups, set()
        now: dict[str, PodGroup] = {}
        for key in keys:
            raw = self.stores.groups.get(key)
            if raw is not None and self.scope.has(dict(raw.metadata.labels)):
                now[key] = self.overlay.group(
                    of_groups.group_of(raw, self._classes), self._starts(key)
                )
        told = {key: self.told.groups[key] for key in keys if key in self.told.groups}
        changed = self._told_of_changed()
        for event in differences(
            now, told, events.PodGroupAdded, events.PodGroupChanged, events.PodGroupRemoved
        ):
            if isinstance(event, events.PodGroupRemoved):  # the ledger forgets its pods with it
                for pod in self.pods_of.get(event.key, set()) | changed[event.key]:
                    model = self.told.pods.get(pod)
                    if model is not None and model.group == event.key:
                        self._tell(pod, model, None)
                        self._dirty_pods.add(pod)
            yield event
        for key in keys:
            put(self.told.groups, key, now.get(key))

    def _told_of_changed(self) -> dict[str, set[str]]:
        """Return the pods that may be in another group than the ledger was told, by the group of then."""
        found: dict[str, set[str]] = defaultdict(set)
        for key in self._dirty_pods:
            model = self.told.pods.get(key)
            if model is not None:
                found[model.group].add(key)
        return found

    def _starts(self, key: str) -> list[str]:
        """Return when the pods of a group that are on nodes began."""
        pods = (self.stores.pods.get(name) for name in self.pods_of.get(key, ()))
        return sorted(
            pod.status.start_time
            for pod in pods
            if pod is not None and of_pods.is_bound(pod) and pod.status.start_time
        )

    def _pods(self) -> Iterator[events.Event]:
        keys, self._dirty_pods = self._dirty_pods, set()
        again, self._told_otherwise = self._told_otherwise, set()
        for key in sorted(keys):
            old, new = self.told.pods.get(key), self._pod(key)
            if new == old and (key not in again or new is None):
                continue
            self._tell(key, old, new)
            if new is None:
                yield events.PodRemoved(key)
            elif old is not None and is_same_but_for_state(old, new):
                yield events.PodStateChanged(key, new.state, new.node, new.devices, new.deleted_ms)
            else:
                yield events.PodAdded(new)

    def _tell(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.node is not None:
            _drop(self.told_on, old.node, key)
        if new is not None and new.node is not None and new.state in HOLDS_RESOURCES:
            self.told_on[new.node].add(key)
        put(self.told.pods, key, new)

    def _pod(self, key: str) -> Pod | None:
        """Return the pod as the ledger should know it, None if it should not."""
        raw = self.stores.pods.get(key)
        self.troubles.pop(key, None)
        self._vetoes.pop(key, None)
        if self.needs.wanting:
            self.needs.forget(key)
        if raw is None or not self.is_ours(raw):
            return None
        place = self.place(raw)
        node = self.stores.nodes.get(raw.spec.node_name or (place.node if place else ""))
        memory = None if node is None else of_nodes.gpu_memory_mib(node.metadata.labels)
        group = self.stores.groups.get(of_pods.group_key(raw))
        held_back = of_pods.is_released(raw) or bool(_held_back(group, self.scope))
        try:
            pod = of_pods.pod_of(
                raw, self.rules, place=place, gpu_memory_mib=memory, is_held_back=held_back
            )
        except BadShare as error:
            self.troubles[key] = str(error)
            return unschedulable(raw)
        if pod is None:
            return None
        if pod.state in IS_WAITING:
            return self._with_needs(raw, pod)
        return self.overlay.pod(raw, pod)

    def _with_needs(self, raw: RawPod, pod: Pod) -> Pod:
        """Return a waiting pod with what its volumes and ConfigMaps ask for."""
        if not raw.spec.volumes and not any(True for _ in config_maps_of(raw)):
            return pod
        verdict = self.needs.judge(raw)
        if verdict.why:
            self._vetoes[raw.key] = verdict.why
        if not verdict.nodes:
            return pod
        rules = (NodeAffinity(self.rules.node_rule(item), YES) for item in verdict.nodes)
        return replace(pod, node_affinity=(*pod.node_affinity, *rules))


def _drop(index: dict[str, set[str]], at: str, key: str) -> None:
    """Take a key out of a set, and the set out of the index with its last key."""
    found = index.get(at, set())
    found.discard(key)
    if not found:
        index.pop(at, None)


def _held_back(raw: Any, scope: Scope) -> str:
    if raw is None:
        return ""
    if of_groups.is_released(raw):
        return "released"
    return "given up" if of_groups.has_given_up(raw, scope.pool) else ""


def _memory_label(raw: Any) -> int | None:
    return of_nodes.gpu_memory_mib(raw.metadata.labels)


def _pod_of_request(raw: Any) -> str:
    return f"{raw.metadata.namespace}/{raw.spec.pod_name or raw.metadata.name}"
