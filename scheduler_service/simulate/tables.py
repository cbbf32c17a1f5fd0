"""Fair-share tables: single calculations with their results, as FORMAT.md's second part says.

What belongs here: reading a table and asking the planner's own functions. What never does: a
second calculation beside the planner's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from scheduler_service.planning import fair_share, queue_order, reclaim_check
from scheduler_service.planning.capacity import first_exceeded
from scheduler_service.planning.queue_order import UNITS, Amounts, Entitlement
from scheduler_service.planning.reclaim_check import Holding

RESOURCES: Final = ("cpu_milli", "memory_bytes", "gpu_milli")
Table: TypeAlias = Mapping[str, Any]


def failures(table: Table) -> list[str]:
    """Return a line for each result of the table that the planner does not reach."""
    runner = KINDS.get(str(table.get("kind")))
    if runner is None:
        return [f"kind {table.get('kind')!r} is none of {', '.join(KINDS)}"]
    found, wanted = runner(table), table["expect"]
    return [
        f"{name} should be {wanted[name]!r} and is {found.get(name)!r}"
        for name in wanted
        if not _agrees(wanted[name], found.get(name))
    ]


def _agrees(wanted: Any, found: Any) -> bool:
    """Compare two JSON values; an amount that is left out is 0."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            _agrees(wanted.get(key, 0), found.get(key, 0)) for key in wanted.keys() | found.keys()
        )
    return bool(wanted == found)


def _field(holder: Table, name: str) -> tuple[Any, ...]:
    """Return one field of all resources; what is left out is 0."""
    return tuple(holder.get(resource, {}).get(name, 0) for resource in RESOURCES)


def _amounts(holder: Table) -> Amounts:
    return _three(tuple(holder.get(resource, 0) for resource in RESOURCES))


def _three(amounts: tuple[int, ...]) -> Amounts:
    cpu, memory, gpu = amounts
    return cpu, memory, gpu


def _named(amounts: list[int]) -> dict[str, int]:
    return dict(zip(RESOURCES, amounts, strict=True))


def _given(queue: Table) -> Entitlement:
    return Entitlement(
        quota=_field(queue, "quota"),
        limit=_field(queue, "limit"),
        fair_share=_three(_field(queue, "fair_share")),
    )


def _holding(queue: Table) -> Holding:
    return Holding(_given(queue), _three(_field(queue, "allocated")))


def division(table: Table) -> dict[str, Any]:
    """Return the fair shares of sibling queues and what nobody gets."""
    queues: Mapping[str, Table] = table["queues"]
    names = list(queues)
    oldest_first = sorted(names, key=lambda name: (queues[name]["created"], name))
    rank = {name: place for place, name in enumerate(oldest_first)}
    shares: dict[str, dict[str, int]] = {name: {} for name in names}
    remaining = {}
    for resource, unit in zip(RESOURCES, UNITS, strict=True):
        cells = [queues[name].get(resource, {}) for name in names]
        claims = fair_share.Claims(
            quota=[cell.get("quota", 0) for cell in cells],
            limit=[cell.get("limit", 0) for cell in cells],
            weight=[cell.get("over_quota_weight", 0) for cell in cells],
            request=[cell.get("request", 0) for cell in cells],
            priority=[queues[name]["priority"] for name in names],
            rank=[rank[name] for name in names],
            usage_milli=[cell.get("usage_milli", 0) for cell in cells],
        )
        divided, remaining[resource] = fair_share.divide(
            table["total"].get(resource, 0),
            claims,
            members=range(len(names)),
            unit=unit,
            usage_weight_milli=table["usage_weight_milli"],
        )
        for name, share in zip(names, divided, strict=True):
            shares[name][resource] = share
    return {"fair_share": shares, "remaining": remaining}


def admission(table: Table) -> dict[str, Any]:
    """Return whether a job may try to reclaim at all."""
    queue, job = table["queue"], table["job"]
    request = reclaim_check.Request("", _amounts(job["request"]), job["preemptible"])
    held = _three(_field(queue, "allocated_non_preemptible"))
    return {"may_reclaim": reclaim_check.may_try(_holding(queue), held, request)}


def strategy(table: Table) -> dict[str, Any]:
    """Return whether one strategy alone allows taking from the victim queue."""
    victim, left = _holding(table["victim"]), _amounts(table["victim_remaining"])
    if table["strategy"] == "maintain_fair_share":
        return {"may_take": reclaim_check.keeps_fair_share(victim, left)}
    reclaimer = _holding(table["reclaimer"])
    asked = _amounts(table["request"])
    return {"may_take": reclaim_check.guarantees_quota(reclaimer, victim, asked=asked, left=left)}


def reclaim(table: Table) -> dict[str, Any]:
    """Return whether a whole list of losses is fair."""
    queues: Mapping[str, Table] = table["queues"]
    job = table["job"]
    book = reclaim_check.Book(
        holdings={name: _holding(queue) for name, queue in queues.items()},
        parent={name: queue["parent"] for name, queue in queues.items()},
        non_preemptible={
            name: _three(_field(queue, "allocated_non_preemptible"))
            for name, queue in queues.items()
        },
    )
    request = reclaim_check.Request(job["queue"], _amounts(job["request"]), job["preemptible"])
    losses = [reclaim_check.Loss(loss["queue"], _amounts(loss)) for loss in table["losses"]]
    return {"allowed": reclaim_check.is_fair(book, request, losses)}


def order_of_queues(table: Table) -> dict[str, Any]:
    """Return which of two sibling queues is served first."""
    total, losses = _amounts(table["total"]), table.get("losses", {})
    places = {}
    for name in ("a", "b"):
        queue = table["queues"][name]
        standing = queue_order.standing(
            _given(queue), total, priority=queue["priority"], rank=(queue["created"], name)
        )
        asked, lost = table["next_job"].get(name, {}), losses.get(name, {})
        places[name] = queue_order.place(
            standing, _three(_field(queue, "allocated")), _amounts(asked), _amounts(lost)
        )
    return {"first": "a" if places["a"] < places["b"] else "b"}


def bounds(table: Table) -> dict[str, Any]:
    """Return whether a job stays within every limit and, if it must, every quota."""
    queues: Mapping[str, Table] = table["queues"]
    rows = list(queues)
    path = []
    name = table["job"]["queue"]
    while name is not None:
        path.append(rows.index(name))
        name = queues[name]["parent"]

    def exceeds(bound: str, held: str) -> bool:
        bounds = [_field(queue, bound) for queue in queues.values()]
        amounts = [_three(_field(queue, held)) for queue in queues.values()]
        return first_exceeded(path, bounds, amounts, _amounts(table["job"]["request"])) is not None

    is_over = exceeds("limit", "allocated") or (
        not table["job"]["preemptible"] and exceeds("quota", "allocated_non_preemptible")
    )
    return {"allowed": not is_over}


KINDS: Final[Mapping[str, Callable[[Table], dict[str, Any]]]] = {
    "division": division,
    "queue_order": order_of_queues,
    "capacity": bounds,
    "admission": admission,
    "strategy": strategy,
    "reclaim": reclaim,
}
