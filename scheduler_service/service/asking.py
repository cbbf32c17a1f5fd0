"""From what a person asked to the record of a new group, or a refusal that says why and what to do.

Rule: every refusal that waiting would not heal is made here, before anything is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler_service.model.node import Node
from scheduler_service.model.pod import PodRequest
from scheduler_service.model.queue import Queue
from scheduler_service.ports import Caller, ForecastAsk
from scheduler_service.service import access, amounts, room
from scheduler_service.service.refusals import refusal
from scheduler_service.settings.queue_file import QueueConfig
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import (
    PROCESS_KINDS,
    Kind,
    Origin,
    Submit,
    TimelineEntry,
    Work,
)

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,48}[a-z0-9])?")
PRIORITY_OF_KIND: Mapping[Kind, int] = {
    "lease": 100,
    "kernel": 100,
    "server": 100,
    "gang": 50,
    "batch": 50,
}
PREEMPTIBLE_BELOW = 100
HIGHEST_PRIORITY = 125
"""More is for a queue's lead."""
LONGEST_GRACE_S = 3600
LONGEST_TIME_S = 366 * 86400


@dataclass(frozen=True, slots=True)
class World:
    """What a request is judged by."""

    config: QueueConfig
    nodes: Sequence[Node]
    workers_limit: int
    has_payload: Callable[[str], bool]
    default_queue: str = "default"

    @property
    def queues(self) -> Mapping[str, Queue]:
        """The queues by name."""
        return {queue.name: queue for queue in self.config.queues}

    @property
    def parents(self) -> frozenset[str]:
        """Names of queues that have queues below them."""
        return frozenset(queue.parent for queue in self.config.queues if queue.parent is not None)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request as it was understood: what decides when it starts."""

    queue: str
    request: PodRequest
    workers: int
    min_members: int
    priority: int
    preemptible: bool


def understood(caller: Caller, ask: Submit | ForecastAsk, world: World) -> Wish:
    """Return the request in our terms. Raises the refusal of the first thing that is wrong with it."""
    request = amounts.pod_request(
        gpu=ask.gpu, gpu_memory=ask.gpu_memory, devices=ask.devices, cpu=ask.cpu, memory=ask.memory
    )
    workers, min_members = _members(ask, world)
    queue = _queue(caller, ask.queue, world)
    priority = _priority(caller, ask, queue)
    preemptible = priority < PREEMPTIBLE_BELOW if ask.preemptible is None else ask.preemptible
    return Wish(queue, request, workers, min_members, priority, preemptible)


def refuse_the_impossible(wish: Wish, world: World) -> None:
    """Raise the refusal of a request that waiting would not help."""
    if (refused := room.never_fits(wish.request, wish.min_members, world.nodes)) is not None:
        raise refused
    charge = room.charge_milli(wish.request.gpu, world.nodes) * wish.min_members
    refused = room.over_queue(
        charge, queue=wish.queue, queues=world.queues, preemptible=wish.preemptible
    )
    if refused is not None:
        raise refused


def _members(ask: Submit | ForecastAsk, world: World) -> tuple[int, int]:
    if ask.workers < 1:
        raise refusal(
            "gang_of_zero",
            f"You asked for {ask.workers} workers.",
            "Ask for 1 or more.",
            workers=ask.workers,
        )
    if ask.workers > world.workers_limit:
        raise refusal(
            "too_many_workers",
            f"You asked for {ask.workers} workers; this service starts at most {world.workers_limit} together.",
            f"Ask for at most {world.workers_limit}.",
        )
    minimum = ask.min_members if isinstance(ask, Submit) else None
    if minimum is not None and not 1 <= minimum <= ask.workers:
        raise refusal(
            "bad_min_members",
            f"At least {minimum} of {ask.workers} workers is not possible.",
            f"Write a number from 1 to {ask.workers}, or leave it out.",
        )
    return ask.workers, ask.workers if minimum is None else minimum


def _queue(caller: Caller, name: str | None, world: World) -> str:
    open_leaves = [
        queue.name
        for queue in world.config.queues
        if queue.name not in world.parents and access.may_submit(caller, queue.name, world.config)
    ]
    yours = ", ".join(open_leaves) or "none"
    if name is None:
        return _only_queue(open_leaves, yours, world.default_queue)
    if name not in world.queues:
        raise refusal("unknown_queue", f"You asked in {name}.", f"Yours are: {yours}.", queue=name)
    if name in world.parents:
        below = ", ".join(q.name for q in world.config.queues if q.parent == name)
        raise refusal(
            "not_a_leaf_queue",
            f"Queue {name} has queues below it.",
            f"Use one of: {below}.",
            queue=name,
        )
    if name not in open_leaves:
        raise refusal(
            "not_your_queue",
            f"{caller.user} may not ask in queue {name}.",
            f"Yours are: {yours}.",
            queue=name,
        )
    return name


def _only_queue(open_leaves: Sequence[str], yours: str, default: str) -> str:
    if default in open_leaves:
        return default
    if len(open_leaves) == 1:
        return open_leaves[0]
    if not open_leaves:
        raise refusal(
            "not_your_queue", "No queue takes your requests.", "Ask a queue's lead to add you."
        )
    raise refusal("queue_needed", "You may ask in several queues.", f"Name one of: {yours}.")


def _priority(caller: Caller, ask: Submit | ForecastAsk, queue: str) -> int:
    if ask.priority is None:
        return PRIORITY_OF_KIND[ask.kind]
    highest = 10**9 if access.leads(caller, queue) else HIGHEST_PRIORITY
    if not 0 <= ask.priority <= highest:
        raise refusal(
            "bad_priority",
            f"Priority {ask.priority} is not between 0 and {highest}.",
            "Leave it out for the usual one; more is for the queue's lead.",
        )
    return ask.priority


def check_work(ask: Submit, world: World) -> None:
    """Raise the refusal of a request whose times, name or work can not be."""
    _check_times(ask)
    if ask.name is not None and not NAME.fullmatch(ask.name):
        raise refusal(
            "bad_name",
            f"{ask.name!r} can not be a name.",
            "Use up to 50 small letters, digits, dots and dashes, like sweep-lr.",
        )
    if ask.process is not None:
        _check_process(ask)
        return
    work = ask.work
    if work is None or (not work.command and work.payload_sha256 is None):
        raise refusal(
            "nothing_to_run",
            "The request names neither a command, nor a payload, nor a process that holds the lease.",
            "Use %gpu in a notebook, or kai submit -- COMMAND.",
        )
    if ask.signature is None:
        raise refusal(
            "unsigned",
            "Work is only run if its owner signed it.",
            "Use the kai command or the notebook's magics: they sign.",
        )
    _check_variables(work)
    if work.payload_sha256 is not None and not world.has_payload(work.payload_sha256):
        raise refusal(
            "unknown_payload",
            "The payload was not uploaded, or it is forgotten.",
            "Upload it again and resubmit.",
        )


def refuse_cluster(ask: Submit) -> None:
    """Raise the refusal of a request that chooses what only a cluster has."""
    if ask.cluster is not None:
        raise refusal(
            "not_a_cluster",
            "Namespace, image, profile, folder and kind of workload are chosen in a cluster.",
            "Leave them out: this service runs work on this machine.",
        )


def _check_variables(work: Work) -> None:
    for name, value in work.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise refusal(
                "bad_variable",
                f"{name!r} can not be a variable.",
                "Give each variable a name without =, and a value without zero bytes.",
            )


def _check_times(ask: Submit) -> None:
    times = {
        "run time": ask.declared_run_s,
        "lease": ask.lease_s,
        "longest wait": ask.max_wait_s,
    }
    for what, seconds in times.items():
        if seconds is not None and not 1 <= seconds <= LONGEST_TIME_S:
            raise refusal(
                "bad_time",
                f"A {what} of {seconds} s is not possible.",
                "Write a time from 1 s to a year, like 2h.",
            )
    if not 0 <= ask.grace_s <= LONGEST_GRACE_S:
        raise refusal(
            "bad_time",
            f"A grace of {ask.grace_s} s is not possible.",
            f"Write 0 to {LONGEST_GRACE_S} s.",
        )


def _check_process(ask: Submit) -> None:
    process = ask.process
    if ask.kind not in PROCESS_KINDS or ask.work is not None or ask.workers != 1:
        raise refusal(
            "nothing_to_run",
            "A process can only hold a lease of one, and runs nothing else.",
            "Send either a process or work.",
        )
    if process is not None and start_ticks(process.pid) != process.start_ticks:
        raise refusal(
            "process_gone",
            f"Process {process.pid} is not there (any more).",
            "Ask again from the running kernel.",
        )


def is_same(ask: Submit, before: Submit) -> bool:
    """Say whether the same is asked for as before; who asks from where, and how long a lease lasts, may change."""
    passing: dict[str, Any] = {
        "signature": None,
        "process": None,
        "origin": Origin(),
        "lease_s": None,
    }
    return replace(ask, **passing) == replace(before, **passing)


def new_record(
    caller: Caller, ask: Submit, wish: Wish, *, name: str, now: int, order: int
) -> GroupRecord:
    """Return the record of a new group that waits."""
    return GroupRecord(
        namespace=caller.user,
        name=name,
        owner=caller.user,
        queue=wish.queue,
        ask=ask,
        request=wish.request,
        min_members=wish.min_members,
        priority=wish.priority,
        preemptible=wish.preemptible,
        created_at=now,
        order=order,
        pods=tuple(PodRecord(rank=rank) for rank in range(wish.workers)),
        process=ask.process,
        timeline=(TimelineEntry(at=now, text="Asked"),),
    )


def free_name(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return `wanted`, or with -2, -3, … the first that nobody has."""
    if not is_taken(wanted):
        return wanted
    number = 2
    while is_taken(f"{wanted}-{number}"):
        number += 1
    return f"{wanted}-{number}"
