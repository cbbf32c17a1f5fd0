"""What changes something on behalf of a person: submit, extend, cancel, move, payloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from msgspec.structs import replace as with_changes

from scheduler_service.backends.local.people import user_of
from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.service import access, asking
from scheduler_service.service.core import Core
from scheduler_service.service.keeping import keep_payload
from scheduler_service.service.refusals import as_refusal, not_found, refusal
from scheduler_service.store import life
from scheduler_service.store.audit import AuditLine
from scheduler_service.store.records import Ending, GroupRecord
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import (
    Cancel,
    Extend,
    Move,
    PayloadStored,
    PodGroupView,
    Process,
    Submit,
)
from scheduler_service.words.group import state_of
from scheduler_service.words.notes import key_taken


class Writes(Core):
    """The person's side of the service's door."""

    async def submit(
        self, caller: Caller, ask: Submit, *, idempotency_key: str | None
    ) -> tuple[PodGroupView, bool]:
        """Return the group and whether it is new. The same key by the same owner returns the first group again."""
        access.require_request(caller)
        if idempotency_key is not None:
            repeat = self.records.find_repeat(caller.user, idempotency_key)
            if repeat is not None:
                return self._repeated(repeat, ask), False
        world = replace(
            self.world, has_payload=lambda sha: self.files.has_payload(caller.user, sha)
        )
        asking.refuse_cluster(ask)
        wish = asking.understood(caller, ask, world)
        asking.check_work(ask, world)
        self._refuse_anothers(caller, ask.process)
        asking.refuse_the_impossible(wish, world)
        self._refuse_a_flood(caller)
        record = self._new_record(caller, ask, wish)
        key = None if idempotency_key is None else (caller.user, idempotency_key)
        with as_refusal():
            self.records.put(record, idempotency=key)
        self._note(caller, "submit", record)
        return self.view(record, is_mine=True), True

    def _repeated(self, record: GroupRecord, ask: Submit) -> PodGroupView:
        """Return the group that has the key, with a note where something else is asked for now."""
        view = self.view(record, is_mine=True)
        if asking.is_same(ask, record.ask):
            return view
        return replace(view, notes=(*view.notes, key_taken(record.name)))

    def _refuse_a_flood(self, caller: Caller) -> None:
        live = sum(r.owner == caller.user and not r.is_over for r in self.records)
        most = self.settings.live_groups_per_user
        if live >= most:
            raise refusal(
                "too_many_live",
                f"You have {live} live requests; {most} at a time are possible.",
                "Cancel some, or wait until they end.",
            )

    def _new_record(self, caller: Caller, ask: Submit, wish: asking.Wish) -> GroupRecord:
        wanted = ask.name or ask.kind
        name = asking.free_name(
            wanted, lambda name: self.records.find(f"{caller.user}/{name}") is not None
        )
        record = asking.new_record(
            caller, ask, wish, name=name, now=self.clock(), order=self.records.next_order()
        )
        if ask.name is not None and name != ask.name:
            record = with_changes(record, notes=(f"renamed to {name}: {ask.name} is taken",))
        return record

    def _own(self, caller: Caller, namespace: str, name: str) -> GroupRecord:
        """Return a group that the caller may change: the owner's, or any of a queue they lead."""
        access.require_request(caller)
        record = self.records.find(f"{namespace}/{name}")
        if record is None or not access.sees(caller, record):
            raise not_found(namespace, name)
        return record

    async def extend(self, caller: Caller, namespace: str, name: str, ask: Extend) -> PodGroupView:
        """Lengthen a lease, or keep it until it is released."""
        record = self._own(caller, namespace, name)
        _refuse_over(record)
        if record.expires_at is None and record.ask.lease_s is None:
            if ask.by_s is not None:
                raise _no_end(record)
            return self.view(record, is_mine=record.owner == caller.user)
        if ask.by_s is not None and not 1 <= ask.by_s <= asking.LONGEST_TIME_S:
            raise refusal(
                "bad_time", f"{ask.by_s} s more is not possible.", "Write a time like 1h."
            )
        after = _extended(record, ask.by_s)
        line = "Kept until released" if ask.by_s is None else f"Extended by {ask.by_s} s"
        self._keep(life.told(after, self.clock(), line))
        self._note(caller, "extend", record, by_s=ask.by_s)
        return self._view_now(record.key, caller)

    async def cancel(self, caller: Caller, namespace: str, name: str, ask: Cancel) -> PodGroupView:
        """End or withdraw a group; one that is over stays as it is."""
        record = self._own(caller, namespace, name)
        if record.is_over:
            return self.view(record, is_mine=record.owner == caller.user)
        grace = record.ask.grace_s if ask.grace_s is None else ask.grace_s
        if not 0 <= grace <= asking.LONGEST_GRACE_S:
            raise refusal(
                "bad_time", f"A grace of {grace} s is not possible.", "Write 0 to 3600 s."
            )
        was_granted = record.granted_at is not None
        is_release = record.is_external and was_granted and caller.user == record.owner
        ending = Ending(
            how="released" if is_release else "cancelled",
            at=self.clock(),
            by=caller.user,
            grace_s=grace,
            text=ask.reason or f"Cancelled by {caller.user}.",
        )
        self._keep(life.stopping(record, ending, line="Released" if is_release else "Cancelled"))
        self._note(caller, "cancel", record, reason=ask.reason)
        return self._view_now(record.key, caller)

    async def move(self, caller: Caller, namespace: str, name: str, ask: Move) -> PodGroupView:
        """Carry a lease over to the new process of the same kernel."""
        record = self._own(caller, namespace, name)
        _refuse_over(record)
        state = state_of(record)
        if not record.is_external or state not in {"Waiting", "Starting", "Running"}:
            raise refusal(
                "not_a_lease", "Only a live lease of a process can move.", "Ask for a new one."
            )
        if record.ask.origin.kernel_id != ask.kernel_id or record.owner != caller.user:
            raise refusal(
                "other_kernel",
                "The lease is another kernel's.",
                "Ask for one from this kernel: %gpu 0.5.",
            )
        if start_ticks(ask.process.pid) != ask.process.start_ticks:
            raise refusal("process_gone", f"Process {ask.process.pid} is not there.", "Ask again.")
        self._refuse_anothers(caller, ask.process)
        if ask.to_kernel_id is not None:
            record = _of_kernel(record, ask.to_kernel_id)
            self._keep(record)
        if record.process != ask.process and state == "Waiting":
            self._keep(with_changes(record, process=ask.process))
        elif record.process != ask.process:
            with as_refusal():
                record = self.desk.move(record, ask.process)
        return self._view_now(record.key, caller)

    def _refuse_anothers(self, caller: Caller, process: Process | None) -> None:
        """Refuse a lease for a process of somebody else, where several people share the service."""
        if not self.settings.shared or process is None or user_of(process.pid) == caller.user:
            return
        raise refusal(
            "others_process",
            f"Process {process.pid} is not one of {caller.user}'s.",
            "Ask from the program that is to use the GPU, as its own user.",
        )

    async def store_payload(
        self, caller: Caller, chunks: AsyncIterator[bytes], *, limit: int | None = None
    ) -> PayloadStored:
        """Store a payload while it streams in; over the limit: `PayloadTooLarge`, nothing kept. `limit` in bytes."""
        access.require_request(caller)
        most = self.settings.payload_limit_mib
        return await keep_payload(self.files, caller.user, chunks, most_mib=most, limit=limit)

    def _keep(self, record: GroupRecord) -> None:
        with as_refusal():
            self.records.put(record)

    def _view_now(self, key: str, caller: Caller) -> PodGroupView:
        record = self.records.find(key)
        if record is None:
            raise not_found(*key.split("/", 1))
        return self.view(record, is_mine=record.owner == caller.user)

    def _note(
        self, caller: Caller, action: str, record: GroupRecord, **facts: str | int | None
    ) -> None:
        with self.told_in_health("audit"):
            self.audit.note(AuditLine(self.clock(), caller.user, action, record.key, facts))


def _of_kernel(record: GroupRecord, kernel_id: str) -> GroupRecord:
    """Return the lease as the whole of another kernel's, which starts with it and ends with it."""
    origin = replace(record.ask.origin, kernel_id=kernel_id, cell_id=None)
    return with_changes(record, ask=replace(record.ask, kind="kernel", origin=origin))


def _refuse_over(record: GroupRecord) -> None:
    if record.is_over or record.ending is not None:
        raise refusal("is_over", f"{record.name} has ended or is ending.", "Ask for a new one.")


def _no_end(record: GroupRecord) -> RefusedRequest:
    what = "This lease" if record.ask.kind == "lease" else record.name
    return refusal("no_end", f"{what} has no end.", "It lasts until it is released.")


def _extended(record: GroupRecord, by_s: int | None) -> GroupRecord:
    """Return the record with a later end; one that still waits gets a longer lease when it is granted."""
    if by_s is None:
        return with_changes(record, expires_at=None, ask=replace(record.ask, lease_s=None))
    if record.expires_at is None:
        return with_changes(
            record, ask=replace(record.ask, lease_s=(record.ask.lease_s or 0) + by_s)
        )
    return with_changes(record, expires_at=record.expires_at + by_s * 1000)
