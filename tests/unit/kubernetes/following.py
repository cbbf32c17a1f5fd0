"""A cluster in small for the tests of decoding: stores, what they mean, and a ledger that follows."""

from __future__ import annotations

from typing import Any

from scheduler_service.backends.kubernetes.decode.bindings import (
    decode_bind_request,
    decode_topology,
)
from scheduler_service.backends.kubernetes.decode.groups import decode_pod_group
from scheduler_service.backends.kubernetes.decode.queues import decode_queue
from scheduler_service.backends.kubernetes.decode.stores import Scope, Stores
from scheduler_service.backends.kubernetes.decode.world import World
from scheduler_service.backends.kubernetes.objects import decode_node, decode_pod
from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import Pod
from scheduler_service.model.policy import Policy
from scheduler_service.planning.cycle import plan
from tests.unit.kubernetes.objects import raw

DECODERS: dict[str, Any] = {
    "pods": decode_pod,
    "nodes": decode_node,
    "groups": decode_pod_group,
    "queues": decode_queue,
    "topologies": decode_topology,
    "requests": decode_bind_request,
}


class Cluster:
    """Stores with a world and a ledger that follows it."""

    def __init__(self, scope: Scope | None = None) -> None:
        self.scope = scope or Scope()
        self.stores = Stores()
        self.world = World(self.stores, self.scope)
        self.ledger = Ledger()

    def put(self, kind: str, value: dict[str, Any]) -> None:
        found = DECODERS[kind](raw(value))
        store = getattr(self.stores, kind)
        old = store.get(found.metadata.key)
        store[found.metadata.key] = found
        self._tell(kind, old, found)

    def drop(self, kind: str, key: str) -> None:
        self._tell(kind, getattr(self.stores, kind).pop(key), None)

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        words = {"topologies": "topology"}
        getattr(self.world, f"{words.get(kind, kind[:-1])}_changed")(old, new)

    def turn(self) -> list[events.Event]:
        told = self.world.drain()
        self.ledger.apply_all(told)
        return told

    def pod(self, key: str = "a/p") -> Pod:
        self.turn()
        return next(item for item in self.ledger.snapshot(0).pods if item.key == key)

    def plan(self) -> Plan:
        self.turn()
        return plan(self.ledger, Policy.default(), 0)

    def check(self) -> None:
        """The ledger that followed equals one made from what is there now."""
        self.turn()
        fresh = World(self.stores, self.scope)
        fresh.overlay, fresh.needs = self.world.overlay, self.world.needs
        ledger = Ledger()
        ledger.apply_all(fresh.drain())
        assert self.ledger.snapshot(0) == ledger.snapshot(0)
