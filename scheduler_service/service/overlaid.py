"""What a lead's overlays make of the queues, of what waits, and of the words beside a request. Pure.

Rule: the queue file stays as it is. An overlay whose queue is gone from the file has no effect, and is no error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as with_changes

from scheduler_service.model import quantities
from scheduler_service.model.pod import PodState
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import StaticVeto
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.store.overlays import Overlay
from scheduler_service.store.records import GroupRecord
from scheduler_service.words.units import clock_words

Charge = Callable[[GroupRecord], int]
"""What one pod of a group costs its queue, in milli-GPU."""


def path(queues: Mapping[str, Queue], name: str) -> tuple[str, ...]:
    """Return the queue and those above it, itself first; () if it is not there."""
    found: list[str] = []
    at: str | None = name
    while at is not None and at in queues and at not in found:
        found.append(at)
        at = queues[at].parent
    return tuple(found)


def below(queues: Mapping[str, Queue], name: str) -> frozenset[str]:
    """Return the queue and all below it."""
    return frozenset(other for other in queues if name in path(queues, other))


def with_loans(config: QueueConfig, overlays: Iterable[Overlay]) -> QueueConfig:
    """Return the queues with what they lend each other: quota moves, the sum above both stays."""
    queues = {queue.name: queue for queue in config.queues}
    for overlay in overlays:
        if overlay.kind == "lend":
            lend(queues, overlay.queue, overlay.to, overlay.milli_gpu)
    return replace(config, queues=tuple(queues.values()))


def lend(queues: dict[str, Queue], giver: str, taker: str, milli: int) -> None:
    """Move quota from one queue to another; never more than each on the way has."""
    giving, taking = path(queues, giver), path(queues, taker)
    if not giving or not taking:
        return
    alone = [name for name in giving if name not in taking]
    has = [quota for name in alone if (quota := queues[name].gpu.quota) is not None]
    amount = min([milli, *has])
    for name in alone:
        _shift(queues, name, -amount)
    for name in taking:
        if name not in giving:
            _shift(queues, name, amount)


def _shift(queues: dict[str, Queue], name: str, by: int) -> None:
    queue = queues[name]
    if queue.gpu.quota is not None:
        share = with_changes(queue.gpu, quota=queue.gpu.quota + by)
        queues[name] = with_changes(queue, gpu=share)


# -- what may not start ------------------------------------------------------------------------
def vetoes(
    records: Sequence[GroupRecord],
    overlays: Sequence[Overlay],
    queues: Mapping[str, Queue],
    charge: Charge,
) -> tuple[StaticVeto, ...]:
    """Return a word against every pod that drained queues and capped people let wait."""
    held_back: dict[str, StaticVeto] = {}
    for overlay in overlays:
        among = below(queues, overlay.queue)
        theirs = [record for record in records if record.queue in among and not record.is_over]
        if overlay.kind == "drain":
            keys = [key for record in theirs for key in _pending(record)]
        elif overlay.kind == "cap":
            own = [record for record in theirs if record.owner == overlay.person]
            keys = list(_over_cap(own, overlay.milli_gpu, charge))
        else:
            continue
        why = sentence(overlay)
        for key in keys:
            held_back.setdefault(key, StaticVeto(key, why, None, overlay.by))
    return tuple(held_back[key] for key in sorted(held_back))


def _pending(record: GroupRecord) -> Iterator[str]:
    if record.ending is None:
        for pod in record.pods:
            if pod.state is PodState.PENDING:
                yield record.pod_key(pod.rank)


def _over_cap(records: Sequence[GroupRecord], cap: int, charge: Charge) -> Iterator[str]:
    """Yield the pods that would bring a person above the cap, the first in the order getting what is left of it."""
    held = sum(holds(record) for record in records)
    for record in sorted(records, key=lambda record: (-record.priority, record.order)):
        pending, cost = list(_pending(record)), charge(record)
        placed = sum(pod.is_occupied for pod in record.pods)
        together = max(1, min(len(pending), record.min_members - placed))
        while pending and held + cost * together <= cap:
            held += cost * together
            pending, together = pending[together:], 1
        yield from pending if cost else ()


def holds(record: GroupRecord) -> int:
    """Return what a group holds, in milli-GPU."""
    return sum(share.milli for pod in record.pods if pod.is_occupied for share in pod.devices)


# -- words -------------------------------------------------------------------------------------
def sentence(overlay: Overlay) -> str:
    """Return what was done, by whom and why, as those concerned read it."""
    reason = overlay.reason.strip().rstrip(".")
    return f"{overlay.by}: {overlay.text.rstrip('.')}. {reason[:1].upper()}{reason[1:]}."


def concerns(overlay: Overlay, record: GroupRecord, queues: Mapping[str, Queue]) -> bool:
    """Whether a change is about a group, so that its owner is told the reason."""
    if overlay.kind in {"priority", "release", "ask"}:
        return overlay.group == record.key
    if overlay.kind == "lend":
        return bool({overlay.queue, overlay.to} & {*path(queues, record.queue)})
    is_there = overlay.queue in path(queues, record.queue)
    return is_there and overlay.person in {"", record.owner}


def notes(
    overlays: Iterable[Overlay], record: GroupRecord, queues: Mapping[str, Queue]
) -> tuple[str, ...]:
    """Return what must be said beside a live group of the changes in force."""
    if record.is_over:
        return ()
    return tuple(sentence(overlay) for overlay in overlays if concerns(overlay, record, queues))


def lent(overlays: Iterable[Overlay]) -> Mapping[str, int]:
    """Return what each queue is lent by others; negative: what it lends."""
    found: dict[str, int] = defaultdict(int)
    for overlay in overlays:
        if overlay.kind == "lend":
            found[overlay.queue] -= overlay.milli_gpu
            found[overlay.to] += overlay.milli_gpu
    return found


def loan_words(overlays: Iterable[Overlay], queue: str, now: int) -> str:
    """Return what a queue's sentence says of changes in force: " It lends 2 GPUs to team-b until 18:00."."""
    told = []
    for overlay in overlays:
        until = "" if overlay.until is None else f" until {clock_words(overlay.until, now)}"
        if overlay.kind == "lend" and overlay.queue == queue:
            told.append(f"lends {quantities.gpu_words(overlay.milli_gpu)} to {overlay.to}{until}")
        elif overlay.kind == "lend" and overlay.to == queue:
            told.append(
                f"is lent {quantities.gpu_words(overlay.milli_gpu)} by {overlay.queue}{until}"
            )
        elif overlay.kind == "drain" and overlay.queue == queue:
            told.append(f"is drained{until}: nothing new starts")
    return "".join(f" It {text}." for text in told)
