"""A share of a GPU, made ready for one pod: devices held, labels and files written; and all of it taken back.

Rule: each step can be made twice; whoever begins anew after a crash meets what was done and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.failures import BindFailed
from scheduler_service.backends.kubernetes.binder.groups import WHOLE, GroupBook, hundredths
from scheduler_service.backends.kubernetes.binder.options import BinderOptions
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.registry import NodeView, is_named_by_registry
from scheduler_service.backends.kubernetes.binder.reservations import Reservations
from scheduler_service.backends.kubernetes.binder.sharing_files import (
    Share,
    file_names,
    sharing_files,
)
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound
from scheduler_service.backends.kubernetes.objects import AnyObject, RawPod, decode_any

ROUNDING = 1
"""A portion was rounded to hundredths, up or down, so each user may be off by one."""


class ShareStep:
    """Holds the devices of a decision for its pod and tells the pod about them."""

    def __init__(
        self,
        client: KubeClient,
        options: Callable[[], BinderOptions],
        book: GroupBook,
        reservations: Reservations,
    ) -> None:
        self._client = client
        self._options = options
        self._book = book
        self._reservations = reservations

    async def prepare(self, request: Request, pod: RawPod, node: NodeView) -> dict[str, str]:
        """Return the device (UUID) of each group, when the pod can be bound."""
        self._check(request, pod, node)
        devices: dict[str, str] = {}
        for group in request.groups:
            if is_named_by_registry(self._options(), node, group):
                devices[group] = group
            else:
                devices[group] = await self._reservations.hold(group, request.node, pod)
        if len(set(devices.values())) != len(devices):
            raise BindFailed(
                "The same GPU was given twice to one pod.", hint="Look at its reservations."
            )
        await self._label(pod, {label: group for group, label in _labels(request.groups).items()})
        return devices

    async def tell(
        self, request: Request, pod: RawPod, node: NodeView, devices: dict[str, str]
    ) -> None:
        """Write what the container will see."""
        options = self._options()
        memory = node.gpu_memory_mib if options.limit_memory else None
        share = Share(
            devices=tuple(devices.values()),
            portion=request.portion,
            memory_mib=None if memory is None else memory * hundredths(request.portion) // WHOLE,
            use_cdi=options.use_cdi,
        )
        await asyncio.gather(
            *(self._write(body, pod.metadata.uid) for body in sharing_files(pod, share))
        )

    async def undo(self, request: Request, pod: RawPod) -> None:
        """Take everything back: files, labels, marks. What was never made is no trouble."""
        for name in file_names(pod) or ():
            await self._remove(pod, name)
        labels = dict.fromkeys(_labels(request.groups).values())
        with contextlib.suppress(NotFound, Conflict):
            await self._label(pod, labels)
        for group in request.groups:
            await self._reservations.let_go(group, request.node, pod.metadata.uid)

    def _check(self, request: Request, pod: RawPod, node: NodeView) -> None:
        mine = hundredths(request.portion)
        if not mine:
            raise BindFailed(f"The decision gives {request.portion or 'no portion'} of a GPU.")
        if file_names(pod) is None:
            raise BindFailed(
                "The pod has no place where it could learn its GPU.",
                why=f"Its annotation {names.SHARED_GPU_CONFIG_MAP} is missing, or names a container it has not.",
                hint="It was made while the admission webhook was away: make it again.",
            )
        for group in request.groups:
            others = self._book.promised(group, request.node, request.pod)
            users = len(self._book.users(group, request.node)) + 1
            if others + mine > WHOLE + ROUNDING * users:
                raise BindFailed(
                    f"The GPU {group} of node {node.name} has no room for {request.portion}.",
                    why=f"{others / WHOLE:.2f} of it is given to others meanwhile.",
                )

    async def _label(self, pod: RawPod, labels: dict[str, str] | dict[str, None]) -> None:
        now = pod.metadata.labels
        if all(now.get(key) == value for key, value in labels.items()):
            return
        path = names.PODS.path(pod.metadata.namespace, pod.metadata.name)
        await self._client.patch(path, {"metadata": {"uid": pod.metadata.uid, "labels": labels}})

    async def _write(self, body: dict[str, object], uid: str) -> None:
        """Write a ConfigMap: new, the pod's own, or one left by an earlier owner of its name."""
        meta = body["metadata"]
        assert isinstance(meta, dict)  # noqa: S101 - we made it
        path = names.CONFIG_MAPS.path(meta["namespace"])
        try:
            await self._client.post(path, body)
        except Conflict:
            known = decode_any(await self._client.get(f"{path}/{meta['name']}"))
            if _is_owned(known, uid):
                await self._client.patch(f"{path}/{meta['name']}", {"data": body["data"]})
            else:
                await self._client.put(f"{path}/{meta['name']}", body)

    async def _remove(self, pod: RawPod, name: str) -> None:
        path = names.CONFIG_MAPS.path(pod.metadata.namespace, name)
        with contextlib.suppress(NotFound, Conflict):
            known = decode_any(await self._client.get(path))
            if _is_owned(known, pod.metadata.uid):
                await self._client.delete(path, {"preconditions": {"uid": known.metadata.uid}})


def _labels(groups: tuple[str, ...]) -> dict[str, str]:
    """Return the label of each group: the plain one for one device, one a device for several."""
    if len(groups) == 1:
        return {groups[0]: names.GPU_GROUP_LABEL}
    return {group: names.GPU_GROUP_PREFIX + group for group in groups}


def _is_owned(known: AnyObject, uid: str) -> bool:
    return any(owner.uid == uid for owner in known.metadata.owner_references)


def assigned(devices: dict[str, str]) -> str:
    """Return the annotation that keeps which device each group is."""
    return msgspec.json.encode(devices).decode()
