"""What a Queue must look like, and when it may go. Pure.

Rule: what can be mended in the next second (a parent that comes after its child, as KAI's own tests make them) is a
warning; `strict_queues` makes it a refusal. What loses work or can never be right is always refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler_service.backends.kubernetes.admission.facts import (
    Facts,
    QueueFacts,
    queue_facts_of,
)
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.review import DELETE, Answer, Request, mapping

UNBOUNDED = -1
KINDS = ("gpu", "cpu", "memory")
FIELDS = ("quota", "limit")


def queue_object_answer(request: Request, facts: Facts, options: Options) -> Answer:
    """Return whether a queue may be made, changed or deleted as asked."""
    if request.operation == DELETE:
        return _deletion(request, facts, options)
    try:
        queue = queue_facts_of(request.object)
    except msgspec.ValidationError as error:
        return Answer((f"The queue can not be read: {error}.",))
    refusals = [*_numbers(queue), *_cycle(queue, facts)]
    doubts = list(_parent(queue, facts))
    warnings = [*_resources(request), *_bounds(queue), *_sums(queue, facts)]
    if options.strict_queues:
        return Answer(tuple(refusals + doubts), tuple(warnings))
    return Answer(tuple(refusals), tuple(doubts + warnings))


def _deletion(request: Request, facts: Facts, options: Options) -> Answer:
    if live := facts.live_groups:
        shown = ", ".join(live[:3]) + (f" and {len(live) - 3} more" if len(live) > 3 else "")  # noqa: PLR2004
        sentence = (
            f"The queue '{request.name}' still has work: {shown}. Move it to another queue or end it first, "
            "then delete the queue."
        )
        return Answer((sentence,))
    below = facts.children(request.name)
    if not below:
        return Answer()
    sentence = (
        f"The queue '{request.name}' has queues below it: {', '.join(below[:5])}. They take no requests "
        "until they have a parent again; delete or move them too."
    )
    return Answer((sentence,)) if options.strict_queues else Answer(warnings=(sentence,))


def _resources(request: Request) -> Iterator[str]:
    if not mapping(request.object, "spec", "resources"):
        yield (
            "The queue has no spec.resources: without a quota nothing is guaranteed, and a limit that is "
            "not set lets nothing run. -1 stands for no bound."
        )


def _numbers(queue: QueueFacts) -> Iterator[str]:
    for kind in KINDS:
        share = queue.shares.get(kind, {})
        for field in FIELDS:
            value = share.get(field, 0)
            if value < 0 and value != UNBOUNDED:
                yield (
                    f"resources.{kind}.{field} is {value:g}. It is 0 or more; -1 stands for no bound."
                )
        if share.get("overQuotaWeight", 0) < 0:
            yield f"resources.{kind}.overQuotaWeight is below 0. Take 0 for no part in what is over."


def _bounds(queue: QueueFacts) -> Iterator[str]:
    for kind in KINDS:
        share = queue.shares.get(kind, {})
        quota, limit = share.get("quota", 0), share.get("limit", 0)
        if limit != UNBOUNDED and (quota == UNBOUNDED or quota > limit):
            yield (
                f"resources.{kind}.quota is above its limit ({limit:g}): what is beyond the limit is "
                "never given."
            )


def _parent(queue: QueueFacts, facts: Facts) -> Iterator[str]:
    if queue.parent and queue.parent != queue.name and queue.parent not in facts.queues:
        yield (
            f"There is no queue '{queue.parent}', which is to be the parent of '{queue.name}'. Until it is "
            "made, this queue gets nothing."
        )


def _cycle(queue: QueueFacts, facts: Facts) -> Iterator[str]:
    path, above = [queue.name], queue.parent
    while above and above not in path:
        path.append(above)
        known = facts.queues.get(above)
        above = known.parent if known is not None else ""
    if above == queue.name:
        yield (
            f"The queue would be above itself: {' → '.join([*path, above])}. Choose another parentQueue."
        )


def _sums(queue: QueueFacts, facts: Facts) -> Iterator[str]:
    """Whether the quotas below one queue are more than it has itself; no bound is more than any number."""
    after = {**facts.queues, queue.name: queue}
    for above in (queue.parent, queue.name):
        parent = after.get(above)
        if parent is None:
            continue
        children = [each for each in after.values() if each.parent == above and not each.is_leaving]
        for kind in KINDS:
            own = _quota(parent, kind)
            total = sum(_quota(child, kind) for child in children)
            if children and total > own:
                yield (
                    f"The {kind} quotas below '{above}' add up to {_amount(total)}, more than its own "
                    f"{_amount(own)}: not all of them can be kept at once."
                )


def _quota(queue: QueueFacts, kind: str) -> float:
    quota = queue.shares.get(kind, {}).get("quota", 0)
    return float("inf") if quota == UNBOUNDED else quota


def _amount(value: float) -> str:
    return "no bound" if value == float("inf") else f"{value:g}"
