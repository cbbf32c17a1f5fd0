"""Fair share: how much of each resource every queue may count on in this cycle.

What belongs here: the division of an amount between sibling queues and its descent through the
queue tree. What never does: which queue is served next (`queue_order`), what a queue may hold
(`capacity`) and what may be taken from it (`reclaim_check`).

Everything is exact: integers in, integers out, fractions compared by cross-multiplication.
Surplus is dealt in whole units (1 milli-CPU, 1 byte, 1,000 milli-GPU).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Amount: TypeAlias = int | None
"""A quota or limit in base units; None is unlimited."""


@dataclass(frozen=True, slots=True)
class Claims:
    """One resource of some queues as parallel columns; sums of all of them are never needed.

    `rank` is the position of a queue by age, then name: it settles every tie.
    `usage_milli` is the part of the cluster used lately, in thousandths; None if nobody measures.
    """

    quota: Sequence[Amount]
    limit: Sequence[Amount]
    weight: Sequence[int]
    request: Sequence[int]
    priority: Sequence[int]
    rank: Sequence[int]
    usage_milli: Sequence[int] | None = None


class Leftover(NamedTuple):
    """The part of a whole unit that flooring took from a queue: numerator / denominator."""

    numerator: int
    denominator: int


def divide(
    total: int,
    claims: Claims,
    *,
    members: Sequence[int],
    unit: int = 1,
    usage_weight_milli: int = 0,
) -> tuple[list[int], int]:
    """Return the fair share of each of `members` (rows of `claims`) and what nobody gets.

    First each gets the smaller of its quota and what it can use, even if that adds up to more
    than `total`; the rest is dealt by priority, then weight; what flooring left goes out at last,
    one unit a queue. O(n log n), and as many rounds more as queues become satisfied in turn.
    """
    limit, request, quota = claims.limit, claims.request, claims.quota
    shares: dict[int, int] = {}
    wants: dict[int, int] = {}
    rest = total
    for row in members:
        cap, usable, own = limit[row], request[row], quota[row]
        if cap is not None and cap < usable:
            usable = cap
        granted = min(total if own is None else own, usable)
        shares[row] = granted
        rest -= granted
        if usable > granted and claims.weight[row] > 0:
            wants[row] = usable - granted
    if rest > 0 and wants:
        rest = _deal_surplus(rest, claims, wants, shares, unit=unit, k_milli=usage_weight_milli)
    return [shares[row] for row in members], max(rest, 0)


def _deal_surplus(
    rest: int,
    claims: Claims,
    wants: dict[int, int],
    shares: dict[int, int],
    *,
    unit: int,
    k_milli: int,
) -> int:
    """Deal `rest` by priority, add it to `shares` and return what stays."""
    levels: dict[int, list[int]] = {}
    for row in wants:
        levels.setdefault(claims.priority[row], []).append(row)
    leftovers = []
    for priority in sorted(levels, reverse=True):
        hungry = {row: wants[row] for row in levels[priority]}
        rest, lost = _deal_rounds(rest, claims, hungry, shares, unit=unit, k_milli=k_milli)
        leftovers.append(lost)
    for lost in leftovers:
        if rest <= 0:
            break
        for row in _largest_fraction_first(lost, claims.rank):
            given = min(unit, rest)
            shares[row] += given
            rest -= given
            if rest == 0:
                break
    return rest


def _deal_rounds(
    rest: int,
    claims: Claims,
    hungry: dict[int, int],
    shares: dict[int, int],
    *,
    unit: int,
    k_milli: int,
) -> tuple[int, dict[int, Leftover]]:
    """Deal `rest` between `hungry` (row -> what it wants) of one priority in rounds.

    Another round follows only if somebody wanted less than its part of the pot.
    """
    lost: dict[int, Leftover] = {}
    again = True
    while again and rest > 0 and hungry:
        again = False
        pot = rest
        parts = _corrected_weights(claims, list(hungry), k_milli)
        all_parts = sum(parts.values())
        if all_parts == 0:
            break
        for row, part in parts.items():
            want = hungry[row]
            numerator = pot * part
            if want * all_parts <= numerator:
                again |= want * all_parts < numerator
                given = want
                del hungry[row]
                lost.pop(row, None)
            else:
                whole_units, remainder = divmod(numerator, all_parts * unit)
                given = whole_units * unit
                hungry[row] = want - given
                if remainder:
                    lost[row] = Leftover(remainder, all_parts * unit)
            shares[row] += given
            rest -= given
    return rest, lost


def _corrected_weights(claims: Claims, rows: Sequence[int], k_milli: int) -> dict[int, int]:
    """Return each row's weight corrected by past usage, not below 0, all by one factor too large.

    w + k * (w - usage) with w the normalised weight, times (sum of weights) * 10**6.
    """
    weight, usage = claims.weight, claims.usage_milli
    if usage is None or k_milli == 0:
        return {row: weight[row] for row in rows}
    all_weights = sum(weight[row] for row in rows)
    return {
        row: max(
            0, weight[row] * 1_000_000 + k_milli * (weight[row] * 1000 - usage[row] * all_weights)
        )
        for row in rows
    }


def _largest_fraction_first(lost: dict[int, Leftover], rank: Sequence[int]) -> list[int]:
    """Return the rows of `lost`, the largest fraction first, then the oldest."""
    denominators = {leftover.denominator for leftover in lost.values()}
    if len(denominators) <= 1:
        return sorted(lost, key=lambda row: (-lost[row].numerator, rank[row]))
    return sorted(lost, key=lambda row: (-Fraction(*lost[row]), rank[row]))


@dataclass(frozen=True, slots=True)
class QueueTree:
    """The shape of the queue tree by row: parents (None at the top), priorities, age ranks."""

    parent: Sequence[int | None]

    def levels(self) -> Iterator[tuple[int | None, list[int]]]:
        """Yield (parent, its children), a parent always before its own children are divided."""
        children: dict[int | None, list[int]] = {}
        for row, parent in enumerate(self.parent):
            children.setdefault(parent, []).append(row)
        waiting: list[int | None] = [None]
        while waiting:
            parent = waiting.pop()
            members = children.get(parent)
            if members:
                yield parent, members
                waiting.extend(members)


def fair_shares(
    total: Sequence[int],
    tree: QueueTree,
    claims: Sequence[Claims],
    *,
    units: Sequence[int],
    usage_weight_milli: int = 0,
) -> list[list[int]]:
    """Return, per resource, the fair share of every queue of `tree`.

    The top level divides `total`; each queue's children divide that queue's fair share. A queue
    that is its own ancestor is never reached and gets 0.
    """
    count = len(tree.parent)
    shares = [[0] * count for _ in total]
    levels = list(tree.levels())
    for amount, of_resource, claim, unit in zip(total, shares, claims, units, strict=True):
        for parent, members in levels:
            divided, _ = divide(
                amount if parent is None else of_resource[parent],
                claim,
                members=members,
                unit=unit,
                usage_weight_milli=usage_weight_milli,
            )
            for row, share in zip(members, divided, strict=True):
                of_resource[row] = share
    return shares
