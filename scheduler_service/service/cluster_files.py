"""Payloads and results in a cluster: uploaded by people, fetched and brought back by the pods that run them.

Rules: 1. A pod is known by its projected token and nothing else; its UID is the incarnation. 2. It gets the payload
that the object of its request names, of those that the owner uploaded: both stand where nobody but us may write.
3. They rest at `--files-url`, which every replica reads; without it nothing is taken that the next leader would lack.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.reviews import Stranger
from scheduler_service.backends.kubernetes.workloads.identity import OwnPod, pod_of
from scheduler_service.ports import Caller
from scheduler_service.service import access
from scheduler_service.service.cluster_core import ClusterCore, ClusterParts
from scheduler_service.service.keeping import keep_payload, keep_result, payload_missing
from scheduler_service.service.refusals import refusal
from scheduler_service.service.rights import TokenReviews
from scheduler_service.store.files import FileStore
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import PayloadStored

MOST_PODS = 10_000
SIGNATURE_MIB = 1


@dataclass(frozen=True, slots=True)
class Belongs:
    """What a pod of ours belongs to: whose it is, and the payload that it may fetch."""

    owner: str
    payload: str


class ClusterFiles(ClusterCore):
    """What travels for the work itself."""

    reviews: TokenReviews | None = None

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._pods: OrderedDict[str, OwnPod] = OrderedDict()

    @cached_property
    def files(self) -> FileStore:
        """Where payloads and results rest. Raises the refusal where there is no place for them."""
        settings = self.parts.settings
        if not settings.files_url:
            raise refusal(
                "not_here",
                "This service has no place for what notebooks send: it would be lost with it.",
                "Whoever keeps the cluster sets --files-url to one that all replicas reach.",
            )
        return FileStore(settings.files_url, settings.state_dir / "scratch")

    # -- people ------------------------------------------------------------------------------------
    async def store_payload(
        self, caller: Caller, chunks: AsyncIterator[bytes], *, limit: int | None = None
    ) -> PayloadStored:
        """Keep a payload while it streams in; only its owner's pods get it."""
        access.require_request(caller)
        most = self.parts.settings.payload_limit_mib
        return await keep_payload(self.files, caller.user, chunks, most_mib=most, limit=limit)

    async def result(
        self, caller: Caller, namespace: str, name: str, *, rank: int
    ) -> tuple[Path, str]:
        """Return the file of a result and its signature."""
        record = self.seen(caller, namespace, name)
        found = await self._result_of(record, rank)
        if found is None:
            raise refusal(
                "no_result",
                f"Worker {rank} of {name} left no result here.",
                "It has one when it has finished and was asked for values (--out).",
            )
        return found

    async def _result_of(self, record: GroupRecord, rank: int) -> tuple[Path, str] | None:
        pod = next((one for one in record.pods if one.rank == rank), None)
        if pod is None or pod.incarnation is None or not self.parts.settings.files_url:
            return None
        path = await self.files.result(pod.incarnation)
        signature = await self.files.result(_signature_name(pod.incarnation))
        if path is None or signature is None:
            return None
        return path, signature.read_text("ascii")

    # -- pods --------------------------------------------------------------------------------------
    async def incarnation_of_token(self, token: str) -> str | None:
        """Return the UID of the live pod whose projected token this is."""
        if self.reviews is None:
            return None
        person = await self.reviews.found(token)
        pod = None if isinstance(person, Stranger) else pod_of(person)
        if pod is None or self._belongs(pod) is None:
            return None
        self._pods[pod.uid] = pod
        while len(self._pods) > MOST_PODS:
            self._pods.popitem(last=False)
        return pod.uid

    async def payload_of(self, incarnation: str) -> Path:
        """Return the payload file of a pod."""
        belongs = self.own_pod(incarnation)
        path = None
        if belongs.payload:
            path = await self.files.payload(belongs.owner, belongs.payload)
        if path is None:
            raise payload_missing()
        return path

    async def store_result(
        self, incarnation: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Keep the result of a pod, with its owner's signature: the signature last, so that no half is shown."""
        self.own_pod(incarnation)
        limit = self.parts.settings.result_limit_mib
        await keep_result(self.files, incarnation, chunks, most_mib=limit)
        name = _signature_name(incarnation)
        await keep_result(self.files, name, once(signature), most_mib=SIGNATURE_MIB)

    def own_pod(self, incarnation: str) -> Belongs:
        """Return what a pod belongs to. Raises the refusal of one that is not known, or has ended."""
        pod = self._pods.get(incarnation)
        belongs = None if pod is None else self._belongs(pod)
        if belongs is None:
            raise refusal(
                "not_found", f"No live pod is known as {incarnation}.", "Start the work again."
            )
        return belongs

    def _belongs(self, pod: OwnPod) -> Belongs | None:
        """Return what a pod belongs to, None for one that has ended or that our API did not ask for."""
        raw = self.cluster.stores.pods.get(pod.key)
        if raw is None or raw.metadata.uid != pod.uid or raw.is_over:
            return None
        key, _ = self.records.rank_of(pod.key)
        group = self.records.raw(key)
        notes = {} if group is None else group.metadata.annotations
        owner = notes.get(names.OWNER_ANNOTATION, "")
        return Belongs(owner, notes.get(names.PAYLOAD_ANNOTATION, "")) if owner else None


def _signature_name(incarnation: str) -> str:
    return f"{incarnation}.signature"


async def once(text: str) -> AsyncIterator[bytes]:
    """Yield a text as the one chunk of a file."""
    yield text.encode()
