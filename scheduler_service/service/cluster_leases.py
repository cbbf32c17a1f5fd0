"""Leases with an end, and files whose time is over: what the clock asks for in a cluster.

Rules: 1. The end of a lease is the service's to keep, since a pod's own deadline can not be moved; where it was moved
to stands on its PodGroup. 2. It is told before it comes. 3. A file that a group of now names is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from msgspec.structs import replace as with_changes

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.errors import KubeError
from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.service import access, asking, news
from scheduler_service.service.cluster_core import ClusterParts
from scheduler_service.service.cluster_files import ClusterFiles
from scheduler_service.service.cluster_writes import ClusterWrites
from scheduler_service.service.refusals import refusal
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.wire.pod_group import Extend, PodGroupView

log = logging.getLogger("kai.leases")
TICK_S = 5.0
FILES_EVERY_S = 3600.0
DAY_MS = 86_400_000
_MENTIONS = '"lease_s"'
"""In the request on a PodGroup: only such groups are looked at, however many there are."""


class ClusterLeases(ClusterFiles, ClusterWrites):
    """Moves and keeps the ends of leases; clears away old files."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._told_ending: set[tuple[str, int]] = set()

    async def extend(self, caller: Caller, namespace: str, name: str, ask: Extend) -> PodGroupView:
        """Lengthen a lease, or keep it until it is released."""
        access.require_request(caller)
        record = self.seen(caller, namespace, name)
        await self.require_end(caller, record)
        is_mine = record.owner == caller.user
        if record.is_over or record.ending is not None:
            raise refusal("is_over", f"{name} has ended.", "Ask for a new one.")
        if record.ask.lease_s is None:
            if ask.by_s is not None:
                raise refusal("no_end", f"{name} has no end.", "It lasts until it is cancelled.")
            return self.view(record, is_mine=is_mine)
        if record.ask.kind != "lease":
            raise refusal(
                "not_a_lease",
                f"The end of {name} is its pods' own: Kubernetes lets nobody move it.",
                "Start it again with a longer time (--for).",
            )
        if ask.by_s is not None and not 1 <= ask.by_s <= asking.LONGEST_TIME_S:
            raise refusal(
                "bad_time", f"{ask.by_s} s more is not possible.", "Write a time like 1h."
            )
        lasts = None if ask.by_s is None else record.ask.lease_s + ask.by_s
        await self._move_end(record, lasts)
        log.info("%s moved the end of %s to %s s after its grant", caller.user, record.key, lasts)
        return self.view(_lasting(record, lasts), is_mine=is_mine)

    async def _move_end(self, record: GroupRecord, lasts: int | None) -> None:
        raw = self.records.raw(record.key)
        if raw is None:
            raise refusal(
                "backend_failed", f"{record.name} is still being made.", "Try again in a moment."
            )
        path = names.POD_GROUPS.path(raw.metadata.namespace, raw.metadata.name)
        note = {names.LEASE_ANNOTATION: "none" if lasts is None else str(lasts)}
        try:
            body = await self.cluster.client.patch(path, {"metadata": {"annotations": note}})
        except KubeError as error:
            raise refusal("backend_failed", f"{error}", "Try again in a moment.") from error
        self.cluster.reflectors["groups"].observe(body)

    # -- what the clock asks for -------------------------------------------------------------------
    async def keep_time(self) -> None:
        """End leases whose time is over and clear files away, for as long as this process leads."""
        files_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self.end_leases()
                if loop.time() >= files_at and self.parts.settings.files_url:
                    files_at = loop.time() + FILES_EVERY_S
                    await self.forget_files()
            except Exception:
                log.exception("what the clock asks for could not be done; the next try comes soon")
            await asyncio.sleep(TICK_S)

    async def end_leases(self) -> None:
        """End each lease whose time is over; tell of those that end soon."""
        now = self.clock()
        for record in [*self._leases()]:
            left = (record.expires_at or now) - now
            if left <= 0:
                await self._end(record, now)
            elif left <= self.parts.settings.ending_notice_s * 1000:
                self._tell_end(record, now)

    def _leases(self) -> Iterator[GroupRecord]:
        for key, raw in self.cluster.stores.groups.items():
            if _MENTIONS in raw.metadata.annotations.get(names.ASKED_ANNOTATION, ""):
                record = self.records.find(key)
                if record is not None and _has_an_end(record):
                    yield record

    def _tell_end(self, record: GroupRecord, now: int) -> None:
        mark = (record.key, record.expires_at or 0)
        if mark not in self._told_ending:
            self._told_ending.add(mark)
            self.changes.notice(record.key, news.ends_soon(record, now))

    async def _end(self, record: GroupRecord, now: int) -> None:
        self._told_ending = {mark for mark in self._told_ending if mark[0] != record.key}
        if self.creator is None:
            return
        text = "Its time is over."
        try:
            await self.creator.end(record.namespace, record.name, text)
        except RefusedRequest as error:
            log.warning("%s could not be ended: %s", record.key, error)
            return
        ending = Ending(how="time_over", at=now, grace_s=record.ask.grace_s, text=text)
        self.records.end(record.key, ending)

    async def forget_files(self) -> None:
        """Remove payloads and results that are older than their retention and that nothing of now names."""
        oldest = self.clock() - self.parts.settings.retention_days * DAY_MS
        groups = self.cluster.stores.groups.values()
        kept = {raw.metadata.annotations.get(names.PAYLOAD_ANNOTATION, "") for raw in groups}
        moment = datetime.fromtimestamp(oldest / 1000, UTC)
        gone = await asyncio.to_thread(self.files.forget_before, moment, kept)
        if gone:
            log.info("%d payloads and results are gone, older than their retention", gone)


def _has_an_end(record: GroupRecord) -> bool:
    is_live = record.ending is None and not record.is_over
    return is_live and record.ask.kind == "lease" and record.expires_at is not None


def _lasting(record: GroupRecord, lasts: int | None) -> GroupRecord:
    granted = record.granted_at
    ends = None if granted is None or lasts is None else granted + lasts * 1000
    return with_changes(record, ask=replace(record.ask, lease_s=lasts), expires_at=ends)
