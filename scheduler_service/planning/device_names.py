"""Which physical GPU it is, where nodes name their devices.

The book counts whole GPUs and knows shared ones by name; who gets which of the free ones decides
nothing, so it is settled only when a binding is committed: the first free one in the node's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_service.ledger import states
from scheduler_service.ledger.nodes import BOUND_PART, NO_NODE, NOBODY
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.shape import WHOLE
from scheduler_service.ledger.store import Ledger

FRESH = "new-"
"""Begins the name of a GPU that is shared from this plan on, until it is known which one."""


@dataclass(slots=True)
class DeviceNames:
    """The free devices of the nodes that this plan binds to, and what it gave out."""

    _free: dict[int, list[str]] = field(default_factory=dict)
    _opened: dict[tuple[int, str], str] = field(default_factory=dict)

    def named(self, ledger: Ledger, pod: int) -> Devices:
        """Return the ids of the devices of a pod that is bound."""
        node, ids = ledger.pods.node[pod], ledger.pods.devices[pod]
        model = ledger.nodes.models[node]
        if model is None or not model.devices:
            return ids
        shape = ledger.shape_of(pod)
        if shape.kind == WHOLE and not ids:
            return tuple(self._take(ledger, node) for _ in range(shape.gpus))
        return tuple(self._real(ledger, node, name) for name in ids)

    def _real(self, ledger: Ledger, node: int, name: str) -> str:
        if not name.startswith(FRESH):
            return name
        if (node, name) not in self._opened:
            self._opened[node, name] = self._take(ledger, node)
        return self._opened[node, name]

    def _take(self, ledger: Ledger, node: int) -> str:
        if node not in self._free:
            self._free[node] = _free_ids(ledger, node)
        free, nodes = self._free[node], ledger.nodes
        while free:
            name = free.pop(0)
            # Where GPUs differ, parts are given by name at once: one that was free may be shared.
            if not any(nodes.shared[node].get(name, NOBODY)):
                nodes.take_whole(node, (name,), BOUND_PART)
                return name
        return f"{FRESH}?"


def _free_ids(ledger: Ledger, node: int) -> list[str]:
    """Return the ids of a node's devices that nobody holds, in the node's order."""
    pods, model = ledger.pods, ledger.nodes.models[node]
    held: set[str] = set()
    for pod in pods.row_of.values():
        place, ids = pods.node[pod], pods.devices[pod]
        if place == node and states.HOLDS_NOW[pods.state[pod]]:
            held.update(ids)
        left = pods.left.get(pod)
        if left is not None and left[0] == node != NO_NODE:
            held.update(left[1])
    devices = model.devices if model is not None else ()
    ordered = sorted(devices, key=lambda device: (device.index, device.id))
    return [device.id for device in ordered if not device.taken and device.id not in held]
