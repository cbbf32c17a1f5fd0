"""After the books were lost: work that runs is entered again from the seals of its runners' orders.

Rules: 1. Only a seal that this service made is believed, only its owner may show it, and only for a while after the
loss: later books know better. 2. No device is counted twice: what has no room is not found again. 3. Nothing is begun
a second time: a worker that no runner shows has ended. 4. Nothing new gets a place before runners had the time to show
what they hold.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from scheduler_service.backends.local.capacity import overbooked
from scheduler_service.backends.local.cluster import LocalCluster
from scheduler_service.backends.local.tokens import PodTokens
from scheduler_service.model.plan import Plan
from scheduler_service.model.pod import PodState
from scheduler_service.store import life
from scheduler_service.store.books import Books, EndedUnknown
from scheduler_service.store.groups import Groups
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.runner import Proof, ProofAnswer, ProofRequest
from scheduler_service.words import recovery as words

SEALS_COUNT_MS = 3_600_000
"""So long after a loss a seal is believed. A pod without its runner has ended long before."""
HOLD_MS = 15_000
"""So long nothing new gets a place: a runner looks for its service at least every 5 s."""
LEAST_LEASE_MS = 15 * 60_000
"""A lease may have been extended since it was sealed; so much is left of it at least."""
ENDED_BEFORE = "ended_before_loss"
"""Reason of a worker of a group that was found again, of which only the lost books knew how it ended."""
_POD_NAME = re.compile(r"[A-Za-z0-9@._/-]{1,200}")


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a runner runs, and what the books said of it: a group with this one pod."""

    proof: Proof
    record: GroupRecord

    @property
    def pod(self) -> PodRecord:
        return self.record.pods[0]


class Recovery:
    """Takes proofs. `clock` gives ms since the epoch."""

    def __init__(
        self,
        groups: Groups,
        cluster: LocalCluster,
        tokens: PodTokens,
        *,
        books: Books,
        clock: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._cluster = cluster
        self._tokens = tokens
        self._books = books
        self._clock = clock
        is_wanted = self._is_soon_after(clock()) or bool(groups.unreadable_live)
        self._held_until = clock() + HOLD_MS if is_wanted else 0
        self.found: dict[str, None] = {}
        """Keys of the groups that were entered again, in order."""

    # -- planning waits ------------------------------------------------------------------------
    def held(self, plan: Plan) -> Plan:
        """Return the plan, without its statements as long as work that runs may not be in the books yet."""
        if plan.now_ms >= self._held_until:
            return plan
        moments = [at for at in (plan.wake_ms, self._held_until) if at is not None]
        return replace(plan, statements=(), wake_ms=min(moments))

    def notes(self) -> list[str]:
        """Return what must be told of lost books: what was found, what was ended, what waits."""
        now = self._clock()
        recent = now - words.TOLD_FOR_MS
        notes = [self._books.note] if self._books.note and self._books.began_at > recent else []
        if now < self._held_until:
            notes.append(words.held_note(self._held_until))
        if self.found:
            notes.append(words.found_note(list(self.found)))
        if ended := self._books.ended_after(recent):
            notes.append(words.ended_note(ended))
        return notes

    # -- what runners show ---------------------------------------------------------------------
    def prove(self, user: str, ask: ProofRequest) -> ProofAnswer:
        """Enter again what can be, and return what can not."""
        shown: dict[tuple[str, int], list[_Shown]] = defaultdict(list)
        why: dict[str, str] = {}
        for proof in ask.pods:
            if self._groups.find_incarnation(proof.incarnation) is not None:
                continue
            record = self._unsealed(user, proof)
            if isinstance(record, str):
                why[proof.incarnation] = record
            else:
                shown[record.key, record.created_at].append(_Shown(proof, record))
        for members in shown.values():
            if (reason := self._enter(ask.runner, members)) is not None:
                why |= {member.proof.incarnation: reason for member in members}
        for proof in ask.pods:
            if proof.incarnation in why:
                self._note_ended(user, proof, why[proof.incarnation])
        return ProofAnswer(
            unknown=tuple(
                proof.incarnation for proof in ask.pods if not self._runs(user, proof.incarnation)
            ),
            lost=tuple(why),
        )

    def _runs(self, user: str, incarnation: str) -> bool:
        found = self._groups.find_incarnation(incarnation)
        if found is None or found[0].owner != user:
            return False
        return found[0].pods[found[1]].is_occupied

    def _unsealed(self, user: str, proof: Proof) -> GroupRecord | str:
        """Return what the books said of the pod, or why this is not believed."""
        if not proof.seal:
            return words.NO_SEAL
        record = self._tokens.unsealed(proof.seal)
        if record is None or not _is_about(record, user, proof):
            return words.BAD_SEAL
        if not self._counts(record):
            return words.NOT_LOST
        is_here = record.pods[0].node == self._cluster.node.name
        return record if is_here else words.OTHER_NODE

    def _counts(self, record: GroupRecord) -> bool:
        """Whether the books may have forgotten this: they were lost just now, or its row could not be read."""
        if record.key in self._groups.unreadable_live:
            return True
        is_before = (record.pods[0].bound_at or 0) <= self._books.began_at
        return is_before and self._is_soon_after(self._clock())

    def _is_soon_after(self, now: int) -> bool:
        return self._books.is_lost and now - self._books.began_at <= SEALS_COUNT_MS

    def _enter(self, runner: str, members: Sequence[_Shown]) -> str | None:
        """Enter a group again with the pods that are shown; return why not, if it can not be."""
        now = self._clock()
        members = sorted(members, key=lambda member: member.pod.bound_at or 0)
        before = self._present(members[0].record)
        if before is not None and not all(_may_join(before, member) for member in members):
            return words.GROUP_OVER
        record = _again(before, members, runner, now)
        if before is None:
            record = self._named(replace(record, order=self._groups.next_order()))
        if (why := overbooked(self._cluster.node, self._groups, [_as_binding(record)])) is not None:
            return words.no_room(why)
        self._groups.put(record)
        self._groups.unreadable_live.discard(members[0].record.key)
        self.found[record.key] = None
        return None

    def _present(self, sealed: GroupRecord) -> GroupRecord | None:
        """Return the group if it is in the books again, perhaps under another name."""
        same = (r for r in self._groups if r.owner == sealed.owner and _is_same(r, sealed))
        return next(same, None)

    def _named(self, record: GroupRecord) -> GroupRecord:
        """Return the record under a name that is free: somebody may have asked under its own meanwhile."""
        name, number = record.name, 1
        while self._groups.find(f"{record.namespace}/{name}") is not None:
            number += 1
            name = f"{record.name}-{number}"
        if name == record.name:
            return record
        note = words.renamed(record.name, name)
        return replace(record, name=name, notes=(*record.notes, note))

    def _note_ended(self, user: str, proof: Proof, why: str) -> None:
        is_name = proof.pod.startswith(f"{user}/") and _POD_NAME.fullmatch(proof.pod)
        name = proof.pod if is_name else proof.incarnation
        self._books.note_ended(EndedUnknown(proof.incarnation, self._clock(), name, why))


def _is_about(record: GroupRecord, user: str, proof: Proof) -> bool:
    """Whether a seal is that of the pod which is shown, and its owner shows it."""
    incarnations = [pod.incarnation for pod in record.pods]
    return record.owner == user and incarnations == [proof.incarnation]


def _is_same(record: GroupRecord, sealed: GroupRecord) -> bool:
    if record.created_at != sealed.created_at:
        return False
    return record.name == sealed.name or words.renamed(sealed.name, record.name) in record.notes


def _may_join(record: GroupRecord, member: _Shown) -> bool:
    """Whether a worker that is shown later than others of its group takes its place again."""
    return not record.is_over and record.pods[member.pod.rank].reason_code == ENDED_BEFORE


def _again(
    before: GroupRecord | None, members: Sequence[_Shown], runner: str, now: int
) -> GroupRecord:
    """Return the group as it runs now; `members` are in the order in which they got their places.

    A worker that is not shown has ended; how, the lost books knew.
    """
    newest = members[-1].record
    known = {pod.rank: pod for pod in before.pods} if before is not None else {}
    known |= {member.pod.rank: _running(member, runner) for member in members}
    pods = tuple(known.get(rank) or _gone(rank, now) for rank in range(newest.ask.workers))
    if before is not None:
        return replace(before, pods=pods)
    expires_at = newest.expires_at
    if expires_at is not None:
        expires_at = max(expires_at, now + LEAST_LEASE_MS)
    found = replace(newest, pods=pods, expires_at=expires_at, ending=None, ended_at=None)
    return life.told(found, now, words.FOUND_AGAIN)


def _running(member: _Shown, runner: str) -> PodRecord:
    pod, proof = member.pod, member.proof
    pod = replace(pod, state=PodState.BINDING, runner=runner)
    if proof.pid is None:
        return pod
    return replace(
        pod,
        state=PodState.RUNNING,
        pid=proof.pid,
        start_ticks=proof.start_ticks,
        started_at=pod.bound_at,
    )


def _gone(rank: int, now: int) -> PodRecord:
    return PodRecord(
        rank=rank,
        state=PodState.SUCCEEDED,
        ended_at=now,
        reason_code=ENDED_BEFORE,
        reason_text=words.ENDED_BEFORE,
    )


def _as_binding(record: GroupRecord) -> GroupRecord:
    """Return the record as if its places were being given now: then the check of the devices judges them."""
    pods = (replace(p, state=PodState.BINDING) if p.is_occupied else p for p in record.pods)
    return replace(record, pods=tuple(pods))
