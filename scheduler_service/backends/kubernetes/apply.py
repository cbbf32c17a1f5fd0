"""Carrying statements out: first the last look at what is so now, then the writes.

Rules: 1. A statement is refused whole, with a sentence, or begun whole. 2. What is accepted shows at once (the world's
overlay) and is taken back if it does not come about. 3. A write whose fate is not known is looked up, never guessed.
4. Plain pods are bound behind the loop's back; a start that needs a binder is written down before it is accepted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.bind_worker import Writes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.decode import pods as of_pods
from scheduler_service.backends.kubernetes.decode.budgets import RawBudget, exceeded
from scheduler_service.backends.kubernetes.decode.pods import Place
from scheduler_service.backends.kubernetes.decode.requests import request_of, shares_of
from scheduler_service.backends.kubernetes.decode.room import overbooked
from scheduler_service.backends.kubernetes.decode.world import World
from scheduler_service.backends.kubernetes.encode.bind_request import bind_request
from scheduler_service.backends.kubernetes.encode.binding import binding
from scheduler_service.backends.kubernetes.encode.eviction import eviction, notice
from scheduler_service.backends.kubernetes.errors import (
    Conflict,
    Gone,
    KubeError,
    NotFound,
    TooMany,
    Unavailable,
)
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod
from scheduler_service.model import reasons
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.plan import Bind, Evict, Statement
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.ports import Accepted, Refused

log = logging.getLogger("kai.apply")
FRESH = "new-"
"""Begins the planner's name of a GPU that is shared from this plan on."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
BindRequests = Literal["needed", "always"]


@dataclass(frozen=True, slots=True)
class Start:
    """One pod that goes to a node."""

    raw: RawPod
    pod: Pod
    place: Place


@dataclass(slots=True)
class Orders:
    """What a statement asks of the API."""

    statement: Statement
    starts: list[Start] = field(default_factory=list)
    evictions: list[tuple[RawPod, reasons.Reason]] = field(default_factory=list)


class Declined(Exception):
    """The statement can not be carried out as things are; the text is the sentence."""


class Applier:
    """Checks statements against the world of now and writes them; `on_failure(group, why)` hears of failed starts."""

    def __init__(
        self,
        client: KubeClient,
        writes: Writes,
        world: World,
        *,
        budgets: dict[str, RawBudget],
        on_failure: Callable[[str, str], None],
    ) -> None:
        self.bind_requests: BindRequests = "needed"
        self.observe_request: Callable[[bytes], None] = lambda _raw: None
        """Told of each BindRequest as the API answered it, so that it is known before the watch tells."""
        self.note_evicted: Callable[[set[str]], Coroutine[Any, Any, None]] | None = None
        """Writes down that groups lost pods, where that matters later."""
        self._client = client
        self._writes = writes
        self._world = world
        self._budgets = budgets
        self._on_failure = on_failure
        self._fresh: dict[tuple[str, str], str] = {}
        self._planned: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._tasks: set[asyncio.Task[None]] = set()

    def new_turn(self) -> None:
        """Begin a new plan: names of fresh GPUs mean new ones, and the ledger knows what was begun before."""
        self._fresh.clear()
        self._planned.clear()

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        """Carry a statement out, whole or not at all."""
        try:
            orders = self._orders(statement)
            self._check_room(orders)
            await self._begin(orders, now)
        except Declined as error:
            return Refused(reasons.Refused(str(error)))
        return Accepted()

    async def finish(self) -> None:
        """Wait until everything that was begun has an end."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- the last look ---------------------------------------------------------------------------------
    def _orders(self, statement: Statement) -> Orders:
        orders = Orders(statement)
        for operation in statement.operations:
            if isinstance(operation, Bind):
                orders.starts.append(self._start(operation))
            elif isinstance(operation, Evict):
                orders.evictions.append((self._victim(operation), operation.reason))
        why = exceeded(self._budgets.values(), [raw for raw, _ in orders.evictions])
        if why is not None:
            raise Declined(why)
        return orders

    def _raw(self, key: str) -> RawPod:
        raw = self._world.stores.pods.get(key)
        if raw is None or raw.is_over or not self._world.is_ours(raw):
            raise Declined(f"The pod {key} is no longer there.")
        return raw

    def _start(self, bind: Bind) -> Start:
        raw = self._raw(bind.pod)
        name = raw.metadata.name
        if raw.metadata.deletion_timestamp:
            raise Declined(f"The pod {name} is being deleted.")
        if raw.spec.node_name or self._world.place(raw) is not None:
            raise Declined(f"The pod {name} has a place already.")
        if raw.spec.scheduling_gates:
            raise Declined(f"The pod {name} is gated.")
        node = self._world.stores.nodes.get(bind.node)
        if node is None or node.metadata.deletion_timestamp:
            raise Declined(f"The node {bind.node} is no longer there.")
        request = request_of(raw)
        memory = (
            self._world.told.nodes[bind.node].gpu_memory_mib
            if bind.node in self._world.told.nodes
            else None
        )
        groups = tuple(self._group(bind.node, share) for share in bind.devices)
        shares = shares_of(request, groups, memory)
        if bind.devices and not shares:
            raise Declined(f"The node {bind.node} has no GPU {bind.devices[0].device} to choose.")
        group = of_pods.group_key(raw)
        pod = Pod(
            name,
            raw.metadata.namespace,
            group,
            PodState.BINDING,
            request=request,
            node=bind.node,
            devices=shares,
        )
        return Start(raw, pod, Place(bind.node, groups))

    def _group(self, node: str, share: GpuShare) -> str:
        """Return KAI's name of a shared GPU: a new one for what the planner opens in this turn."""
        name = share.device
        if name.startswith(FRESH):
            return self._fresh.setdefault((node, name), str(uuid.uuid4()))
        if _is_uuid(name) or any(name in _devices(pod) for pod in self._on(node).values()):
            return name
        raise Declined(f"The node {node} has no shared GPU {name}.")

    def _on(self, node: str) -> dict[str, Pod]:
        """Return the pods that hold something on a node, what was begun in this turn included."""
        told = self._world.told.pods
        held = {key: told[key] for key in self._world.told_on[node] if key in told}
        return held | self._planned[node]

    def _victim(self, evict: Evict) -> RawPod:
        raw = self._raw(evict.pod)
        if not raw.spec.node_name:
            raise Declined(f"The pod {raw.metadata.name} is on no node.")
        if raw.metadata.deletion_timestamp or self._world.overlay.is_leaving(raw):
            raise Declined(f"The pod {raw.metadata.name} is leaving already.")
        return raw

    def _check_room(self, orders: Orders) -> None:
        """Look once more whether all fits: strangers may have come since the plan was made."""
        by_node: dict[str, dict[str, Pod]] = defaultdict(dict)
        for start in orders.starts:
            by_node[start.place.node][start.raw.key] = start.pod
        for name, coming in by_node.items():
            node = self._world.node(name)
            if node is None:
                raise Declined(f"The node {name} is not in this node pool.")
            why = overbooked(node, (self._on(name) | coming).values())
            if why is not None:
                raise Declined(why)

    # -- the writes --------------------------------------------------------------------------------------
    async def _begin(self, orders: Orders, now: int) -> None:
        by_request = [start for start in orders.starts if self._needs_request(start)]
        plain = [start for start in orders.starts if not self._needs_request(start)]
        if by_request:
            await self._write_requests(by_request)
        if orders.evictions:
            await self._evict_all(orders, now)
        for start in plain:
            self._show(start, by_overlay=True)
            self._in_background(self._bind(start))

    def _needs_request(self, start: Start) -> bool:
        """Whether a binder has more to do than to call the API once."""
        spec = start.raw.spec
        return bool(
            self.bind_requests == "always"
            or start.pod.devices
            or spec.resource_claims
            or any(item.persistent_volume_claim or item.ephemeral for item in spec.volumes)
        )

    def _show(self, start: Start, *, by_overlay: bool) -> None:
        """Have the start count. A BindRequest that we know speaks for itself, and stops when it is gone."""
        if by_overlay:
            self._world.overlay.bind(start.raw, start.place)
        self._planned[start.place.node][start.raw.key] = start.pod
        self._world.tell_again(start.raw.key)

    def _take_back(self, start: Start) -> None:
        self._world.overlay.unbind(start.raw.key)
        self._planned[start.place.node].pop(start.raw.key, None)
        self._world.tell_again(start.raw.key)

    def _in_background(self, story: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(story)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, start: Start) -> None:
        """Bind a plain pod, until it is known to be bound, or known not to be."""
        meta = start.raw.metadata
        path = names.PODS.path(meta.namespace, meta.name, "binding")
        pause = SHORTEST_PAUSE_S
        while True:
            try:
                await self._writes.post(path, binding(start.raw, start.place.node))
            except NotFound:
                why = f"The pod {meta.name} is gone."
            except Conflict:
                why = await self._where_it_is(start)
            except (Unavailable, TooMany):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            except KubeError as error:
                why = str(error)
            else:
                return
            break
        if why:
            log.info("pod %s was not bound to %s: %s", start.raw.key, start.place.node, why)
            self._take_back(start)
            self._on_failure(start.pod.group, why)

    async def _where_it_is(self, start: Start) -> str:
        """Return why the binding did not come about; "" if it did (an earlier call was not answered)."""
        meta = start.raw.metadata
        try:
            pod = decode_pod(await self._client.get(names.PODS.path(meta.namespace, meta.name)))
        except NotFound:
            return f"The pod {meta.name} is gone."
        except KubeError as error:
            return str(error)
        return _elsewhere(start, pod)

    async def _write_requests(self, starts: list[Start]) -> None:
        """Write all BindRequests of a statement; if one can not be written, the others are taken back."""
        outcomes = await asyncio.gather(
            *(self._write_request(start) for start in starts), return_exceptions=True
        )
        failed = [error for error in outcomes if isinstance(error, BaseException)]
        if not failed:
            for start in starts:
                self._show(start, by_overlay=False)
            return
        for start, outcome in zip(starts, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                meta = start.raw.metadata
                await self._drop_request(meta.namespace, meta.name)
        raise Declined(str(failed[0]))

    async def _write_request(self, start: Start) -> None:
        meta, scope = start.raw.metadata, self._world.scope
        labels = {scope.pool_label: scope.pool} if scope.pool else {}
        body = bind_request(
            start.raw, start.place.node, start.pod.request, start.pod.devices, labels=labels
        )
        path = names.BIND_REQUESTS.path(meta.namespace)
        try:
            made = await self._writes.post(path, body, want_body=True)
        except Conflict:  # of an earlier try or an earlier pod of this name
            await self._drop_request(meta.namespace, meta.name)
            made = await self._writes.post(path, body, want_body=True)
        self.observe_request(made)

    async def _drop_request(self, namespace: str, name: str) -> None:
        try:
            await self._writes.delete(names.BIND_REQUESTS.path(namespace, name))
        except (NotFound, Gone):
            return
        except KubeError as error:
            log.warning("the BindRequest %s/%s could not be removed: %s", namespace, name, error)

    def drop_request(self, namespace: str, name: str) -> None:
        """Remove a BindRequest that failed, soon."""
        self._in_background(self._drop_request(namespace, name))

    # -- evictions -----------------------------------------------------------------------------------------
    async def _evict_all(self, orders: Orders, now: int) -> None:
        """Evict; refused only if none could be. What could not be evicted is told as it is again."""
        group, action = orders.statement.group, orders.statement.action
        for raw, _ in orders.evictions:
            self._world.overlay.evict(raw, now)
        outcomes = await asyncio.gather(
            *(self._evict(raw) for raw, _ in orders.evictions), return_exceptions=True
        )
        failed: list[BaseException] = []
        groups: set[str] = set()
        for (raw, reason), outcome in zip(orders.evictions, outcomes, strict=True):
            self._world.tell_again(raw.key)
            if isinstance(outcome, BaseException):
                self._world.overlay.keep(raw.key)
                failed.append(outcome)
                continue
            body = notice(raw, reason, by_group=group, action=action, at_ms=now)
            self._in_background(self._give_notice(raw, body))
            if victim := of_pods.group_key(raw):
                self._world.overlay.last_evicted[victim] = now
                groups.add(victim)
        if groups and self.note_evicted is not None:
            self._in_background(self.note_evicted(groups))
        if failed and len(failed) == len(outcomes):
            raise Declined(_eviction_words(failed[0]))

    async def _evict(self, raw: RawPod) -> None:
        meta = raw.metadata
        try:
            await self._writes.post(
                names.PODS.path(meta.namespace, meta.name, "eviction"), eviction(raw)
            )
        except NotFound:
            return  # it left by itself

    async def _give_notice(self, raw: RawPod, body: dict[str, Any]) -> None:
        meta = raw.metadata
        try:
            await self._writes.patch(names.PODS.path(meta.namespace, meta.name), body)
        except (NotFound, Conflict):
            return
        except KubeError as error:
            log.warning("the notice on pod %s could not be written: %s", raw.key, error)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _devices(pod: Pod) -> set[str]:
    return {share.device for share in pod.devices}


def _elsewhere(start: Start, found: RawPod) -> str:
    """Return what is wrong with a pod that could not be bound; "" if it is where it should be."""
    name = start.raw.metadata.name
    if found.metadata.uid != start.raw.metadata.uid:
        return f"The pod {name} was made anew."
    if found.spec.node_name == start.place.node:
        return ""
    if found.spec.node_name:
        return f"Somebody else put {name} on {found.spec.node_name}."
    return f"The pod {name} changed meanwhile."


def _eviction_words(error: BaseException) -> str:
    if isinstance(error, TooMany):
        return "A disruption budget does not allow the eviction now."
    return str(error)
