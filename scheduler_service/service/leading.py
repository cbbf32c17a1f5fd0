"""What a queue's lead changes, on this machine: kept before it is in force, told to those concerned, ended in time.

Rules: 1. The service checks the right, never a page. 2. Nothing without a reason; every change is a line in the audit.
3. What can be taken back is taken back by ending its overlay, so a restart, an undo and a lapse go the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as with_changes

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot, StaticVeto
from scheduler_service.ports import Caller
from scheduler_service.service import access, lead_asks, news, overlaid, room
from scheduler_service.service.changes import QUEUES
from scheduler_service.service.cluster_view import Picture
from scheduler_service.service.core import Core, Parts
from scheduler_service.service.refusals import as_refusal, refusal
from scheduler_service.service.team import Team
from scheduler_service.service.team_parts import change_view
from scheduler_service.service.what_if import Question, what_if
from scheduler_service.store import life
from scheduler_service.store.audit import AuditLine
from scheduler_service.store.overlays import AT_ONCE, Overlay, Overlays
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.store.use_lately import Sample, UseLately
from scheduler_service.wire.pod_group import PodGroupView
from scheduler_service.wire.team import ChangeView, LeadAsk, Undo, WhatIfView
from scheduler_service.words.group import Standing

SAMPLE_MS = 60_000
ASK_AGAIN_MS = 10 * 60_000
"""An owner is asked for the same lease once in so long."""


class Leading(Team, Core):
    """The lead's side of the service's door."""

    may_change = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.overlays = Overlays(self._connection, parts.settings.state_dir / "kai.db")
        self.use = UseLately(self._connection, parts.settings.state_dir / "kai.db")
        self._planner = parts.planner
        self._sampled_at = 0
        self.on_tick += [self.tick_overlays, self._tick_sample]
        self.on_housekeeping.append(self.overlays.forget_before)
        self.queue_source.lay_over(self.overlays.in_force())
        self.loop.before_plan = self._hold_back
        self._vetoes: tuple[StaticVeto, ...] = ()

    # -- the planner's side ----------------------------------------------------------------------
    def _hold_back(self, ledger: Ledger) -> None:
        """Let the ledger know which pods may not start, if that is another answer than before."""
        overlays = self.overlays.in_force()
        wanted = self._vetoes_of(overlays) if overlays else ()
        if wanted != self._vetoes:
            self._vetoes = wanted
            ledger.apply(events.VetoesChanged(wanted))

    def _vetoes_of(self, overlays: Sequence[Overlay]) -> tuple[StaticVeto, ...]:
        queues = {queue.name: queue for queue in self.queue_source.config.queues}
        return overlaid.vetoes(list(self.records), overlays, queues, self._charge)

    def _charge(self, record: GroupRecord) -> int:
        return room.charge_milli(record.request.gpu, (self.cluster.node,))

    # -- changes ---------------------------------------------------------------------------------
    def _desk(self) -> lead_asks.Desk:
        records = {record.key: record for record in self.records}
        return lead_asks.Desk(self.queue_source.config, records, self.clock())

    async def what_if(self, caller: Caller, ask: LeadAsk) -> WhatIfView:
        """Return what a change would do; nothing is changed."""
        access.require_read(caller)
        overlay = lead_asks.overlay_of(caller, ask, self._desk())
        question = self._question(caller, overlay)
        return await asyncio.to_thread(what_if, question)

    def _question(self, caller: Caller, overlay: Overlay) -> Question:
        before = self.loop.ledger.snapshot(self.clock())
        picture = self.picture(caller)
        return Question(
            overlay=overlay,
            before=before,
            after=self._changed(before, overlay),
            policy=self.loop.policy,
            planner=self._planner,
            records={record.key: record for record in self.records},
            names=picture.who,
        )

    def _changed(self, snapshot: Snapshot, overlay: Overlay) -> Snapshot:
        """Return the ledger's content as it would be with one overlay more."""
        if overlay.kind == "priority":
            groups = tuple(
                with_changes(group, priority=overlay.priority, created=overlay.order)
                if group.key == overlay.group
                else group
                for group in snapshot.pod_groups
            )
            return with_changes(snapshot, pod_groups=groups)
        if overlay.kind in AT_ONCE:
            gone = {overlay.group} if overlay.kind == "release" else set()
            pods = tuple(pod for pod in snapshot.pods if pod.group not in gone)
            groups = tuple(group for group in snapshot.pod_groups if group.key not in gone)
            return with_changes(snapshot, pods=pods, pod_groups=groups)
        overlays = (*self.overlays.in_force(), overlay)
        queues = self.queue_source.trial(overlays).queues
        return with_changes(snapshot, queues=queues, vetoes=self._vetoes_of(overlays))

    async def change(self, caller: Caller, ask: LeadAsk) -> ChangeView:
        """Make a change: kept first, then in force, then told."""
        access.require_read(caller)
        overlay = lead_asks.overlay_of(caller, ask, self._desk())
        self._refuse_repeat(overlay)
        with as_refusal():
            overlay = self.overlays.add(overlay)
        self._audit(caller, f"lead.{overlay.kind}", overlay)
        concerned = self._concerned(overlay)  # who is told of a release is gone after it
        self._in_force(overlay)
        self._tell(overlay, concerned, overlaid.sentence(overlay))
        overlay = self.overlays.find(overlay.id) or overlay
        return change_view(overlay, caller, self._queues_now())

    def _refuse_repeat(self, overlay: Overlay) -> None:
        if overlay.kind != "ask":
            return
        for other in self.overlays:
            is_same = other.kind == "ask" and other.group == overlay.group
            if is_same and overlay.at - other.at < ASK_AGAIN_MS:
                raise refusal(
                    "nothing_to_change",
                    f"{overlay.person} was asked for this lease a moment ago.",
                    "Give them ten minutes, or release it.",
                )

    def _in_force(self, overlay: Overlay) -> None:
        record = self.records.find(overlay.group)
        if overlay.kind in {"lend", "drain", "cap"}:
            self._lay_over()
        elif record is not None and overlay.kind == "priority":
            changed = with_changes(record, priority=overlay.priority, order=overlay.order)
            self._put(life.told(changed, overlay.at, overlaid.sentence(overlay)))
        elif record is not None and overlay.kind == "release":
            self._release(overlay, record)
        elif record is not None:
            self._put(life.told(record, overlay.at, overlaid.sentence(overlay)))
        if overlay.kind in AT_ONCE:
            with as_refusal():
                self.overlays.end(overlay, at=overlay.at)

    def _release(self, overlay: Overlay, record: GroupRecord) -> None:
        ending = Ending(
            how="cancelled",
            at=overlay.at,
            by=overlay.by,
            grace_s=record.ask.grace_s,
            text=overlay.reason,
        )
        self._put(life.stopping(record, ending, line=overlaid.sentence(overlay)))

    def _put(self, record: GroupRecord) -> None:
        with as_refusal():
            self.records.put(record)

    def _lay_over(self) -> None:
        changed = self.queue_source.lay_over(self.overlays.in_force())
        self.loop.offer(*changed)
        self.changes.part(QUEUES)

    def _concerned(self, overlay: Overlay) -> list[GroupRecord]:
        queues = self._queues_now()
        return [
            record
            for record in self.records
            if not record.is_over and overlaid.concerns(overlay, record, queues)
        ]

    def _tell(self, overlay: Overlay, concerned: Sequence[GroupRecord], text: str) -> None:
        """Tell those concerned in their notebooks, and make their cards anew."""
        for record in concerned:
            if record.owner != overlay.by:
                self.changes.notice(record.key, news.by_lead(record, text, self.clock()))
            self.refresh(record.key)
        self.changes.part(QUEUES)

    # -- back ------------------------------------------------------------------------------------
    async def undo(self, caller: Caller, number: int, ask: Undo) -> ChangeView:
        """Take a change back; one that is over stays as it is."""
        access.require_read(caller)
        overlay = self.overlays.find(number)
        queues = self._queues_now()
        if overlay is None or not lead_asks.leads(caller, overlay.queue, queues):
            raise lead_asks.no_such_change(number)
        if overlay.is_in_force:
            overlay = self._end(overlay, by=caller.user, why=" ".join(ask.reason.split())[:300])
            self._audit(caller, "lead.undo", overlay)
        return change_view(overlay, caller, queues)

    def _end(self, overlay: Overlay, *, by: str = "", why: str = "") -> Overlay:
        now = self.clock()
        with as_refusal():
            ended = self.overlays.end(overlay, at=now, by=by, why=why)
        record = self.records.find(overlay.group)
        is_as_made = record is not None and record.order == overlay.order
        if overlay.kind == "priority" and record is not None and is_as_made and not record.is_over:
            back = with_changes(
                record, priority=overlay.priority_before, order=overlay.order_before
            )
            self._put(life.told(back, now, "It has its old place again"))
        self._lay_over()
        who = f"{by}: taken back" if by else "Its time is over"
        reason = f" Reason: {why}." if why else ""
        self._tell(ended, self._concerned(ended), f"{who}: {overlay.text.rstrip('.')}.{reason}")
        return ended

    def tick_overlays(self) -> None:
        """End what has reached its time, and what was about a request that is over."""
        now = self.clock()
        for overlay in self.overlays.in_force():
            record = self.records.find(overlay.group) if overlay.group else None
            is_moot = bool(overlay.group) and (record is None or record.is_over)
            if is_moot or (overlay.until is not None and overlay.until <= now):
                self._end(overlay)

    def picture(self, caller: Caller) -> Picture:
        """Return what views of queues are made of, with what their leads changed."""
        picture, overlays, now = super().picture(caller), self.overlays.in_force(), self.clock()
        concerned = {name for overlay in overlays for name in (overlay.queue, overlay.to)}
        said = {name: overlaid.loan_words(overlays, name, now) for name in concerned if name}
        return replace(picture, said=said) if said else picture

    # -- the page --------------------------------------------------------------------------------
    def standing_of(self, record: GroupRecord) -> Standing:
        """Return where a group stands, with how long it has been idle where that is measured."""
        return self.standing(record)

    def lead_overlays(self) -> Sequence[Overlay]:
        """Return the changes that leads made."""
        return tuple(self.overlays)

    def use_samples(self) -> Sequence[Sample]:
        """Return what is known of the last day."""
        return self.use.samples

    def _tick_sample(self) -> None:
        now = self.clock()
        if now - self._sampled_at >= SAMPLE_MS:
            self._sampled_at = now
            with self.told_in_health("line of the last day"):
                self.use.note(self.sample_now())

    # -- words -----------------------------------------------------------------------------------
    def _queues_now(self) -> Mapping[str, Queue]:
        return {queue.name: queue for queue in self.queue_source.config.queues}

    def view(self, record: GroupRecord, *, is_mine: bool) -> PodGroupView:
        """Return a group as its owner (or lead, or an admin) sees it, with what a lead said of it."""
        view = super().view(record, is_mine=is_mine)
        overlays = self.overlays.in_force()
        if not overlays:
            return view
        said = overlaid.notes(overlays, record, self._queues_now())
        return replace(view, notes=(*view.notes, *said)) if said else view

    def _audit(self, caller: Caller, action: str, overlay: Overlay) -> None:
        facts: dict[str, str | int | None] = {
            "change": overlay.id,
            "what": overlay.text,
            "reason": overlay.ended_why if action == "lead.undo" else overlay.reason,
            "until": overlay.until,
        }
        line = AuditLine(self.clock(), caller.user, action, overlay.group or overlay.queue, facts)
        with self.told_in_health("audit"):
            self.audit.note(line)
