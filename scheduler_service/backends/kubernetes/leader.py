"""One of several: who holds the Lease leads; who loses it ends, so that nobody ever decides beside another.

Rules (Kubernetes' own): the holder renews every few seconds and gives up leading well before others may take over;
others take over only after the record stood still for the lease's time by their own clock. Nobody compares clocks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import KubeError, NotFound
from scheduler_service.backends.kubernetes.objects import Meta, decoder

log = logging.getLogger("kai.leader")


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who leads, and since when that was last said."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class RawLease(msgspec.Struct, frozen=True, gc=False):
    """A Lease of the API."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()


_decode = decoder(RawLease)


@dataclass(frozen=True, slots=True)
class Pace:
    """KAI's times: others wait so long, the holder must have renewed within so long, and tries so often."""

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


def identity() -> str:
    """Return a name for this process that no other has."""
    host = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{host}_{os.getpid()}_{secrets.token_hex(4)}"


class Leader:
    """Takes and keeps one Lease. `is_leading` is what readiness says."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        *,
        namespace: str = names.NAMESPACE,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity()
        self.is_leading = False
        self._client = client
        self._name = name
        self._namespace = namespace
        self._pace = pace or Pace()
        self._clock = clock
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._busy = asyncio.Lock()

    async def acquire(self) -> None:
        """Return once this process leads."""
        told = ""
        while not self.is_leading:
            try:
                holder = await self._try()
            except KubeError as error:
                log.warning("the lease %s could not be read or written: %s", self._name, error)
                holder = told
            if holder == self.identity:
                log.info("leading as %s", self.identity)
                return
            if holder != told:
                log.info("%s leads; waiting", holder)
                told = holder
            await asyncio.sleep(self._pace.retry_s * (0.8 + random.random() * 0.4))  # noqa: S311

    async def keep(self) -> None:
        """Renew for as long as it works; return when this process leads no more."""
        while self.is_leading:
            await asyncio.sleep(self._pace.retry_s)
            left = self._pace.renew_s - (self._clock() - self._renewed_at)
            try:
                await asyncio.wait_for(self._renew(), max(0.1, left))
            except (KubeError, TimeoutError) as error:
                log.warning("the lease %s could not be renewed: %s", self._name, error)
            if self._clock() - self._renewed_at > self._pace.renew_s:
                self.is_leading = False

    async def _renew(self) -> None:
        async with self._busy:
            if self.is_leading:
                await self._try()

    async def release(self) -> None:
        """Let the next one lead at once."""
        async with self._busy:  # a renewal that is under way would take it again
            if not self.is_leading:
                return
            self.is_leading = False
            try:
                lease = await self._read()
                if lease is not None and lease.spec.holder_identity == self.identity:
                    await self._write(lease, "")
            except KubeError as error:
                log.warning("the lease %s could not be given up: %s", self._name, error)

    # -- one try -----------------------------------------------------------------------------------------
    async def _try(self) -> str:
        """Take or renew the lease if it may be taken; return who holds it."""
        lease = await self._read()
        if lease is None:
            await self._create()
            return self._leads()
        spec = lease.spec
        record = (spec.holder_identity, spec.renew_time)
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()
        is_mine = spec.holder_identity == self.identity
        is_over = self._clock() - self._seen_at > max(
            spec.lease_duration_seconds, self._pace.lease_s
        )
        if not is_mine and spec.holder_identity and not is_over:
            self.is_leading = False
            return spec.holder_identity
        await self._write(lease, self.identity)
        return self._leads()

    def _leads(self) -> str:
        self.is_leading = True
        self._renewed_at = self._clock()
        return self.identity

    async def _read(self) -> RawLease | None:
        try:
            return _decode(await self._client.get(self._path(self._name)))
        except NotFound:
            return None

    async def _create(self) -> None:
        await self._client.post(self._path(), self._body(self.identity, 0, acquired=_now()))

    async def _write(self, lease: RawLease, holder: str) -> None:
        spec = lease.spec
        is_new = holder != spec.holder_identity
        body = self._body(
            holder,
            spec.lease_transitions + (is_new and bool(holder)),
            acquired=_now() if is_new or not spec.acquire_time else spec.acquire_time,
        )
        body["metadata"]["resourceVersion"] = lease.metadata.resource_version
        await self._client.put(self._path(self._name), body)

    def _path(self, name: str | None = None) -> str:
        return names.LEASES.path(self._namespace, name)

    def _body(self, holder: str, transitions: int, *, acquired: str) -> dict[str, Any]:
        return {
            "apiVersion": names.LEASES.api_version,
            "kind": names.LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": max(1, round(self._pace.lease_s)),
                "acquireTime": acquired,
                "renewTime": _now(),
                "leaseTransitions": transitions,
            },
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
