"""The device registry: which GPUs a node has by UUID, as `kai agent` wrote them on it. Pure.

It names shared GPUs where no device plug-in hands out GPUs: there nobody else can be given the same device, and no
reservation is needed. On a node with a device plug-in a share is always held by a reservation.
"""

from __future__ import annotations

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.pods import NOTHING, Amounts
from scheduler_service.backends.kubernetes.decode.requests import GPU_RESOURCES, amounts_of
from scheduler_service.backends.kubernetes.objects import Labels, decode_node

MOST_PODS = 110
"""What a kubelet allows where the node does not say."""


class Device(msgspec.Struct, frozen=True, gc=False):
    """One GPU that the agent found."""

    uuid: str
    memory_mib: int | None = None
    mig: bool = False


class _Told(msgspec.Struct, frozen=True, gc=False):
    devices: tuple[Device, ...] = ()


_decode = msgspec.json.Decoder(_Told).decode


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node as the binder sees it."""

    name: str
    labels: Labels
    has: Amounts = NOTHING
    """What pods may ask of it; its GPUs are those that a device plug-in hands out."""
    gpu_memory_mib: int | None = None
    devices: tuple[Device, ...] = ()

    def device(self, uuid: str) -> Device | None:
        """Return the device of this UUID, if it is whole and there."""
        return next((each for each in self.devices if each.uuid == uuid and not each.mig), None)


def node_of(raw: bytes) -> NodeView:
    """Return what is kept of a node."""
    node = decode_node(raw)
    labels = node.metadata.labels
    memory = labels.get(names.GPU_MEMORY_LABEL, "")
    has = amounts_of(node.status.allocatable)
    return NodeView(
        name=node.metadata.name,
        labels=labels,
        has=Amounts(
            has.get("cpu", 0),
            has.get("memory", 0),
            sum(has.get(name, 0) for name in GPU_RESOURCES),
            has.get("pods", MOST_PODS),
        ),
        gpu_memory_mib=int(memory) if memory.isdigit() else None,
        devices=_devices(node.metadata.annotations.get(names.DEVICES_ANNOTATION, "")),
    )


def _devices(text: str) -> tuple[Device, ...]:
    if not text:
        return ()
    try:
        return _decode(text.encode()).devices
    except msgspec.MsgspecError:
        return ()


def is_named_by_registry(options: BinderOptions, node: NodeView | None, group: str) -> bool:
    """Return whether the group is a device of the registry, so that no reservation is needed."""
    return (
        options.sharing == "registry"
        and node is not None
        and node.has.gpus == 0
        and node.device(group) is not None
    )
