"""A Kubernetes cluster as a backend: follows the API, tells the ledger, carries statements out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.apply import Applier, BindRequests
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.decode.bindings import (
    RawBindRequest,
    decode_bind_request,
    decode_topology,
    has_failed,
)
from scheduler_service.backends.kubernetes.decode.budgets import decode_budget
from scheduler_service.backends.kubernetes.decode.groups import decode_pod_group
from scheduler_service.backends.kubernetes.decode.needs import (
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from scheduler_service.backends.kubernetes.decode.pods import group_key
from scheduler_service.backends.kubernetes.decode.queues import decode_queue
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.decode.world import World
from scheduler_service.backends.kubernetes.lookups import Lookups
from scheduler_service.backends.kubernetes.moments import Moments
from scheduler_service.backends.kubernetes.names import Resource
from scheduler_service.backends.kubernetes.objects import (
    RawNode,
    RawPod,
    decode_node,
    decode_pod,
    decode_priority_class,
)
from scheduler_service.backends.kubernetes.shards import (
    Choices,
    RawConfig,
    RawShard,
    chosen,
    decode_config,
    decode_shard,
)
from scheduler_service.backends.kubernetes.watch import Reflector
from scheduler_service.ledger import events
from scheduler_service.model.plan import Statement
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import BackOff
from scheduler_service.ports import Accepted, Refused

log = logging.getLogger("kai.cluster")
OnChange = Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the cluster is used."""

    scope: Scope = field(default_factory=Scope)
    policy: Policy = field(default_factory=Policy.default)
    shard: str = "default"
    config: str = names.CONFIG_NAME
    bind_requests: BindRequests = "needed"
    worker: bool = True
    """Plain pods are bound by a process of their own."""
    first_back_off_ms: int = 5_000
    longest_back_off_ms: int = 300_000


class KubernetesCluster:
    """The backend. `stores` and `reflectors` may be read by others in this process; `listen` tells them of changes."""

    name = "kubernetes"

    def __init__(
        self, client: KubeClient, *, clock: Callable[[], int], options: Options | None = None
    ) -> None:
        self.options = options or Options()
        self.client = client
        self.writes = Writes(client, apart=self.options.worker)
        self.reflectors: dict[str, Reflector[Any]] = {}
        self.policy = self.options.policy
        self.on_policy: Callable[[Policy], None] = lambda _policy: None
        self.on_events: list[Callable[[Sequence[events.Event]], None]] = []
        """Who hears what the ledger is about to be told."""
        self._clock = clock
        self._listeners: dict[str, list[OnChange]] = {}
        self._extra: list[events.Event] = []
        self._ready: list[events.Event] = []
        self._seen = asyncio.Event()
        self._failures: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.stores, self.world = self._follow()
        self.applier = Applier(
            client,
            self.writes,
            self.world,
            budgets=self.reflectors["budgets"].items,
            on_failure=self._start_failed,
        )
        self.lookups = Lookups(client, self.world.needs, self._found)
        self.moments = Moments(self.stores.groups, self.world.overlay, self.writes.patch)
        self.applier.bind_requests = self.options.bind_requests
        self.applier.note_evicted = self.moments.evicted
        self.applier.observe_request = self.reflectors["requests"].observe

    def _follow(self) -> tuple[Stores, World]:
        """Make a reflector a kind; what it holds is what the world reads."""
        pods = self._reflector("pods", names.PODS, decode_pod)
        nodes = self._reflector("nodes", names.NODES, decode_node)
        groups = self._reflector("groups", names.POD_GROUPS, decode_pod_group)
        queues = self._reflector("queues", names.QUEUES, decode_queue)
        topologies = self._reflector("topologies", names.TOPOLOGIES, decode_topology)
        requests = self._reflector("requests", names.BIND_REQUESTS, decode_bind_request)
        classes = self._reflector("classes", names.PRIORITY_CLASSES, decode_priority_class)
        claims = self._reflector("volume_claims", names.VOLUME_CLAIMS, decode_volume_claim)
        volumes = self._reflector("volumes", names.VOLUMES, decode_volume)
        storage = self._reflector("storage_classes", names.STORAGE_CLASSES, decode_storage_class)
        self._reflector("budgets", names.DISRUPTION_BUDGETS, decode_budget)
        self._reflector("shards", names.SHARDS, decode_shard)
        self._reflector("configs", names.CONFIGS, decode_config)
        for kind in ("shards", "configs"):
            self.listen(kind, self._chosen_anew)
        stores = Stores(
            pods.items,
            nodes.items,
            groups.items,
            queues.items,
            topologies.items,
            requests.items,
            classes.items,
            claims.items,
            volumes.items,
            storage.items,
        )
        world = World(stores, self.options.scope)
        handlers: dict[str, OnChange] = {
            "pods": world.pod_changed,
            "nodes": world.node_changed,
            "groups": world.group_changed,
            "queues": world.queue_changed,
            "topologies": world.topology_changed,
            "requests": world.request_changed,
            "classes": world.class_changed,
        }
        for kind, handler in handlers.items():
            self.listen(kind, handler)
        for kind, word in (
            ("volume_claims", "claim"),
            ("volumes", "volume"),
            ("storage_classes", "class"),
        ):
            self.listen(kind, _needed(world, word))
        self.listen("pods", self._pod_changed)
        self.listen("requests", self._request_changed)
        self.listen("nodes", self._node_changed)
        return stores, world

    def _reflector(
        self, kind: str, resource: Resource, decode: Callable[[bytes], Any]
    ) -> Reflector[Any]:
        listeners = self._listeners.setdefault(kind, [])

        def on_event(old: Any, new: Any) -> None:
            for listener in listeners:
                listener(old, new)
            self._seen.set()

        reflector: Reflector[Any] = Reflector(self.client, resource, decode, on_event)
        self.reflectors[kind] = reflector
        return reflector

    def listen(self, kind: str, listener: OnChange) -> None:
        """Have `listener(old, new)` called on each change of a kind, after all who listened before."""
        self._listeners[kind].append(listener)

    # -- the port ----------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to follow, and return once everything was listed."""
        for reflector in self.reflectors.values():
            self._tasks.append(asyncio.create_task(reflector.run()))
        self._tasks.append(asyncio.create_task(self.lookups.run()))
        synced = asyncio.gather(*(item.synced.wait() for item in self.reflectors.values()))
        await self._unless_ended(synced)
        self._tidy()

    async def _unless_ended(self, synced: asyncio.Future[Any]) -> None:
        """Wait for the lists, or for the fault that ended who was to make one."""
        done, _ = await asyncio.wait({synced, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {synced}:
            task.result()

    def observed(self) -> Sequence[events.Event]:
        """Return, and forget, what happened since the last call."""
        self._collect()
        self.applier.new_turn()
        ready, self._ready = self._ready, []
        return ready

    async def wait_observed(self, timeout_s: float) -> bool:
        """Wait until something happened that means anything; False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._collect():
                    await self._seen.wait()
        except TimeoutError:
            return self._collect()
        return True

    def _collect(self) -> bool:
        """Work out what the changes since mean, and return whether anything is to be told."""
        self._seen.clear()
        extra, self._extra = self._extra, []
        news = [*self.world.drain(), *extra]
        self._ready += news
        for listener in self.on_events if news else ():
            listener(news)
        if self.world.needs.wanting:
            self.lookups.look()
        return bool(self._ready)

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        """Carry a statement out, whole or not at all."""
        answer = await self.applier.apply(statement, now)
        self._seen.set()
        return answer

    async def stop(self) -> None:
        """Finish what was begun and stop following. What runs goes on running."""
        await self.applier.finish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.writes.close()

    def _found(self, key: str) -> None:
        self.world.need_changed(f"config {key}")
        self._seen.set()

    # -- what the cluster's owner chose ------------------------------------------------------------------------
    @property
    def choices(self) -> Choices:
        """What is scheduled, and how, by the shard and the config of now."""
        base = Choices(self.options.scope, self.options.policy)
        shard = self.reflectors["shards"].items.get(self.options.shard)
        return chosen(base, shard, self.reflectors["configs"].items.get(self.options.config))

    def _chosen_anew(
        self, _old: RawShard | RawConfig | None, new: RawShard | RawConfig | None
    ) -> None:
        """Take over what the shard and the config say now."""
        found = self.choices
        self.world.rescope(found.scope)
        if found.policy != self.policy:
            self.policy = found.policy
            self.on_policy(found.policy)
        meta = None if new is None else new.metadata
        what = "gone" if meta is None else f"{meta.name} {meta.resource_version}"
        log.info("in force: %s", what)

    # -- what does not come about ----------------------------------------------------------------------------
    def _start_failed(self, group: str, why: str) -> None:
        """Have a group wait before it is tried again: twice as long each time."""
        if not group:
            return
        failures = self._failures[group] = self._failures.get(group, 0) + 1
        delay = min(
            self.options.first_back_off_ms * 2 ** min(failures - 1, 20),
            self.options.longest_back_off_ms,
        )
        log.info("%s waits %s ms after %s failed starts: %s", group, delay, failures, why)
        self._extra.append(events.BackedOff(BackOff(group, failures, self._clock() + delay)))
        self._seen.set()

    def _pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        """Forget failures of a group once a pod of it is on a node."""
        if new is None or not new.spec.node_name or not self._failures:
            return
        if old is None or not old.spec.node_name:
            self._failures.pop(group_key(new), None)

    def _request_changed(self, _old: RawBindRequest | None, new: RawBindRequest | None) -> None:
        if new is not None:
            self._tidy_request(new)

    def _node_changed(self, old: RawNode | None, new: RawNode | None) -> None:
        if new is not None or old is None:
            return
        for request in [*self.stores.requests.values()]:
            if request.spec.selected_node == old.metadata.name:
                self._tidy_request(request)

    def _tidy(self) -> None:
        for request in [*self.stores.requests.values()]:
            self._tidy_request(request)

    def _tidy_request(self, request: RawBindRequest) -> None:
        """Remove a request that nobody will carry out any more; its pod waits again, and its group for a while."""
        is_lost = (
            self.reflectors["nodes"].synced.is_set()
            and request.spec.selected_node not in self.stores.nodes
        )
        if request.metadata.deletion_timestamp or not (has_failed(request) or is_lost):
            return
        meta = request.metadata
        if is_lost and request.status.phase == names.PHASE_SUCCEEDED:
            return
        key = f"{meta.namespace}/{request.spec.pod_name or meta.name}"
        pod = self.stores.pods.get(key)
        self.world.overlay.unbind(key)
        self.world.look_at_pod(key)
        if pod is not None and not pod.spec.node_name:
            why = request.status.reason or f"The node {request.spec.selected_node} is gone."
            self._start_failed(group_key(pod), why)
        self.applier.drop_request(meta.namespace, meta.name)


def _needed(world: World, word: str) -> OnChange:
    """Return who hears of what pods wait for."""

    def changed(old: Any, new: Any) -> None:
        world.need_changed(f"{word} {(new or old).metadata.key}")

    return changed
