"""Queue order: which of two sibling queues is served first.

What belongs here: the place of a queue, given what it may count on, what it holds and what its
next work asks for; places compare with `<`. What never does: the tree of queues and the order of
groups inside one (`ordering`, `live_order`). The rules are kai-core §3.5, in this order: queues
above their share last; starved ones first; priority; who would hold of what it may hold nothing
last; the smaller dominant share, with the work and without; the smaller allocatable share; age.

Amounts are tuples (milli-CPU, bytes, milli-GPU).
"""

from __future__ import annotations

from typing import NamedTuple

Amounts = tuple[int, int, int]
Bounds = tuple[int | None, ...]
ZERO: Amounts = (0, 0, 0)
UNITS: Amounts = (1, 1, 1000)
"""Surplus is dealt in whole units: 1 milli-CPU, 1 byte, 1 GPU."""
UNLIMITED = 1 << 80
ZERO_SHARE_WEIGHT = 1000
"""Of a share of 0 every unit counts a thousand whole shares."""


class Tie:
    """The last words on equal queues: the smaller allocatable share, then age, then name."""

    __slots__ = ("allocatable", "rank")

    def __init__(self, allocatable: Bounds, rank: tuple[int, str]) -> None:
        self.allocatable = allocatable
        self.rank = rank

    def __lt__(self, other: Tie) -> bool:
        mine, theirs = self.allocatable, other.allocatable
        if mine != theirs:
            if _within(mine, theirs):
                return True
            if _within(theirs, mine):
                return False
        return self.rank < other.rank


def _within(mine: Bounds, theirs: Bounds) -> bool:
    return all(
        other is None or (own is not None and own <= other)
        for own, other in zip(mine, theirs, strict=True)
    )


QueuePlace = tuple[bool, bool, int, bool, float, float, Tie]
UNPLACED: QueuePlace = (True, True, 0, True, 0.0, 0.0, Tie((), (0, "")))


class Standing(NamedTuple):
    """What of a queue does not change in a cycle."""

    share: Amounts
    quota: tuple[int, ...]
    against: tuple[float, ...]
    """What an amount is divided by: the allocatable share, or the cluster; never 0."""
    nothing: tuple[int, ...]
    """Resources of which it may hold nothing."""
    falling_priority: int
    tie: Tie


class Entitlement(NamedTuple):
    """What a queue is given: quota, limit, and its fair share of this cycle."""

    quota: Bounds
    limit: Bounds
    fair_share: Amounts

    def allocatable(self) -> Bounds:
        """Return what the queue may hold: the larger of quota and share, cut at the limit."""
        return tuple(map(_allocatable, self.quota, self.limit, self.fair_share))


def _allocatable(quota: int | None, limit: int | None, share: int) -> int | None:
    if quota is None:
        return limit
    own = max(quota, share)
    return own if limit is None else min(own, limit)


def standing(
    given: Entitlement, total: Amounts, *, priority: int, rank: tuple[int, str]
) -> Standing:
    """Return a queue's standing in a cluster of this size; `rank` (age, name) ends every tie."""
    allocatable = given.allocatable()
    return Standing(
        given.fair_share,
        tuple([UNLIMITED if bound is None else bound for bound in given.quota]),
        tuple(map(_against, allocatable, total, UNITS)),
        tuple([index for index, may in enumerate(allocatable) if may == 0]),
        -priority,
        Tie(allocatable, rank),
    )


def _against(may: int | None, all_of_it: int, unit: int) -> float:
    return (all_of_it if may is None else may) or unit / ZERO_SHARE_WEIGHT


def place(
    queue: Standing, allocated: Amounts, asked: Amounts, losses: Amounts = ZERO
) -> QueuePlace:
    """Return a queue's place (smaller is served first) if it asks for `asked` next.

    `losses` (victim order only): what its victims so far, and the next one, hold together.
    Divisions of integers are correctly rounded, so equal shares are equal here too.
    """
    share, quota, against, nothing, falling_priority, tie = queue
    cpu, memory, gpu = allocated
    new_cpu, new_memory, new_gpu = cpu + asked[0], memory + asked[1], gpu + asked[2]
    is_starved = new_cpu <= quota[0] and new_memory <= quota[1] and new_gpu <= quota[2]
    breaks = False
    if nothing:
        after = (new_cpu, new_memory, new_gpu)
        breaks = any(after[index] > 0 for index in nothing)
    if losses is not ZERO:
        new_cpu, new_memory = new_cpu - losses[0], new_memory - losses[1]
        new_gpu -= losses[2]
    # The dominant share, with the work and without, spelled out: nothing is asked more often.
    by_cpu, by_memory, by_gpu = against
    dominant, part = new_cpu / by_cpu, new_memory / by_memory
    dominant = dominant if dominant >= part else part
    part = new_gpu / by_gpu
    dominant = dominant if dominant >= part else part
    current, part = cpu / by_cpu, memory / by_memory
    current = current if current >= part else part
    part = gpu / by_gpu
    current = current if current >= part else part
    return (
        share[0] < cpu and share[1] < memory and share[2] < gpu,
        not is_starved,
        falling_priority,
        breaks,
        dominant if dominant > 0.0 else 0.0,
        current if current > 0.0 else 0.0,
        tie,
    )
