"""One bind, from the decision to the pod on its node; and everything taken back if it does not come to that.

Order: devices, volumes, claims, files, then the binding itself, which carries the pod's UID and its annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.binder.device_claims import DeviceClaims
from scheduler_service.backends.kubernetes.binder.failures import BindFailed, Stale
from scheduler_service.backends.kubernetes.binder.pods import PodView, view_of
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.registry import NodeView
from scheduler_service.backends.kubernetes.binder.rules import Bind, verdict
from scheduler_service.backends.kubernetes.binder.share_step import ShareStep, assigned
from scheduler_service.backends.kubernetes.binder.volumes import Volumes
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.encode.bound import binding
from scheduler_service.backends.kubernetes.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler_service.backends.kubernetes.objects import RawPod, decode_pod


class Carrier:
    """Carries decisions out. `begin` counts a pod on its node, or raises `BindFailed` where it no longer fits."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Mapping[str, NodeView],
        shares: ShareStep,
        volumes: Volumes,
        claims: DeviceClaims,
        begin: Callable[[Request], None],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._shares = shares
        self._volumes = volumes
        self._claims = claims
        self._begin = begin

    async def bind(self, request: Request, pod: PodView) -> None:
        """Bind the pod. `BindFailed`: a failed try; `Stale`: look again; nothing is taken back here."""
        node = self._nodes.get(request.node)
        if node is None:
            raise BindFailed(f"Node {request.node} is gone.")
        self._begin(request)
        try:
            if request.is_share or request.claims or pod.has_extras:
                annotations = await self._prepare(request, node)
            else:
                annotations = {names.RECEIVED_TYPE: request.received}
            path = names.PODS.path(request.namespace, request.pod_name, "binding")
            body = binding(request.pod_name, request.pod_uid or pod.uid, request.node, annotations)
            await self._client.post(path, body)
        except (Conflict, NotFound) as error:
            raise Stale(str(error)) from error
        except (Forbidden, Invalid) as error:
            raise BindFailed("The Kubernetes API refused.", why=str(error)) from error

    async def _prepare(self, request: Request, node: NodeView) -> dict[str, str]:
        """Return the pod's annotations when all it needs is ready."""
        pod = await self.pod(request)
        if not isinstance(verdict(request, view_of(pod)), Bind):
            raise Stale("The pod has changed.")
        devices: dict[str, str] = {}
        if request.is_share:
            devices = await self._shares.prepare(request, pod, node)
        await self._volumes.prepare(pod, request.node, node.labels)
        await self._claims.prepare(pod, request.node, request.claims)
        if not request.is_share:
            return {names.RECEIVED_TYPE: request.received}
        await self._shares.tell(request, pod, node, devices)
        return {
            names.RECEIVED_TYPE: request.received,
            names.ASSIGNED_DEVICES: assigned(devices),
        }

    async def undo(self, request: Request) -> None:
        """Take back what was made ready for a pod that is not bound; for any other nothing is done."""
        try:
            pod = await self.pod(request)
        except NotFound:
            return
        if pod.spec.node_name or request.pod_uid not in {"", pod.metadata.uid}:
            return
        await self._claims.undo(pod, request.claims)
        await self._volumes.undo(pod, request.node)
        if request.is_share:
            await self._shares.undo(request, pod)

    async def pod(self, request: Request) -> RawPod:
        """Return the pod as the API has it now."""
        path = names.PODS.path(request.namespace, request.pod_name)
        return decode_pod(await self._client.get(path))
