"""How long things run, and when who waits will start: from what was declared or seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler_service.planning.forecast import Forecast, RunTime
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.pod_group import EtaView, Kind
from scheduler_service.words.units import range_words

Basis = Literal["declared", "observed"]
DECLARED_EARLY = 0.7
"""People declare too much rather than too little; work that was declared ends from 0.7 of it on."""
DECLARED_LATE = 1.1
FEWEST_SEEN = 3
"""From so many ended requests of a kind on, what was seen supports a number."""
MOST_SEEN = 200
LIKELY_PART = 0.4
"""Ends come early rather than late in their range."""
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of run times, and on what it rests."""

    run_times: Mapping[str, RunTime]
    bases: frozenset[Basis]
    longest_grace_s: int = 0
    """How long those who are leaving may take; where nobody is, those who could be told to."""


def durations(records: Iterable[GroupRecord]) -> Mapping[tuple[str, Kind], Sequence[int]]:
    """Return how long ended requests ran, by owner and kind, newest first, in ms."""
    found: dict[tuple[str, Kind], list[int]] = {}
    for record in sorted(records, key=lambda record: -(record.ended_at or 0)):
        if record.ended_at is None or record.granted_at is None or record.ending is None:
            continue
        if record.ending.how in {"succeeded", "released", "time_over"}:
            seen = found.setdefault((record.owner, record.ask.kind), [])
            if len(seen) < MOST_SEEN:
                seen.append(record.ended_at - record.granted_at)
    return found


def known_run_times(records: Sequence[GroupRecord], now: int) -> Known:
    """Return what is known of every live group: how long it still runs, or will run once it started."""
    seen = durations(records)
    run_times: dict[str, RunTime] = {}
    bases: set[Basis] = set()
    for record in records:
        if record.is_over:
            continue
        elapsed = 0 if record.granted_at is None else now - record.granted_at
        answer = _left(record, elapsed, seen.get((record.owner, record.ask.kind), ()))
        if answer is not None:
            run_times[record.key], basis = answer
            bases.add(basis)
    return Known(run_times, frozenset(bases), _longest_grace(records))


def _longest_grace(records: Sequence[GroupRecord]) -> int:
    holding = [r for r in records if r.granted_at is not None and not r.is_over]
    leaving = [r.ending.grace_s for r in holding if r.ending is not None]
    return max(leaving or (r.ask.grace_s for r in holding), default=0)


def _left(record: GroupRecord, elapsed: int, seen: Sequence[int]) -> tuple[RunTime, Basis] | None:
    if record.ending is not None:
        left = record.ending.grace_s * 1000
        return RunTime(0, left), "declared"
    if record.ask.declared_run_s is not None:
        total = record.ask.declared_run_s * 1000
        early = max(0, int(total * DECLARED_EARLY) - elapsed)
        late = max(early, int(total * DECLARED_LATE) - elapsed)
        return RunTime(early, late), "declared"
    if record.ask.lease_s is not None:
        left = max(0, record.ask.lease_s * 1000 - elapsed)
        observed = _observed(elapsed, seen)
        early = min(left, observed.earliest_ms) if observed else int(left * DECLARED_EARLY)
        return RunTime(early, left), "declared"
    observed = _observed(elapsed, seen)
    return None if observed is None else (observed, "observed")


def _observed(elapsed: int, seen: Sequence[int]) -> RunTime | None:
    """Return the range in which such work ended, of that which ran at least as long as this."""
    longer = sorted(duration - elapsed for duration in seen if duration > elapsed)
    if len(longer) < FEWEST_SEEN:
        return None
    last = len(longer) - 1
    return RunTime(longer[int(last * LOW)], longer[round(last * HIGH)])


def eta_view(answer: Forecast, known: Known, now: int) -> EtaView:
    """Return a forecast as people see it."""
    if answer.verdict == "now":
        return EtaView(earliest_at=now, likely_at=now, latest_at=now, basis="now", text="now")
    if answer.verdict == "by_eviction":
        return _range(0, known.longest_grace_s * 1000, now, "declared")
    if answer.verdict != "about" or answer.eta_ms is None:
        return EtaView()
    basis: Literal["declared", "observed", "mixed"] = "mixed"
    if len(known.bases) == 1:
        (basis,) = known.bases
    return _range(*answer.eta_ms, now, basis)


def _range(
    early: int, late: int, now: int, basis: Literal["declared", "observed", "mixed"]
) -> EtaView:
    likely = early + int((late - early) * LIKELY_PART)
    return EtaView(
        earliest_at=now + early,
        likely_at=now + likely,
        latest_at=now + late,
        basis=basis,
        text=range_words(early, likely, late),
    )
