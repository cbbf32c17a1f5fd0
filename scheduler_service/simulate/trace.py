"""Traces of work as tables: who came when, asked for what, ran for how long; CSV, plain or gzipped.

Columns of ours: `submit_s, run_s, gpus` and, where they are there, `queue, name, members,
priority, preemptible, fraction, fails_after_s, owner`. A file with Philly's columns (`timestamp,
duration, num_gpus, cluster`) is read as it is.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from scheduler_service.errors import RequestError
from scheduler_service.model.gpu import FractionOfGpu, GpuRequest, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod, PodRequest
from scheduler_service.model.pod_group import PodGroup, Preemptibility, flat_gang
from scheduler_service.model.quantities import parse_milli_gpu
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.simulate.clock import Coming
from scheduler_service.simulate.source import Located
from scheduler_service.simulate.table import opened

NAMESPACE: Final = "trace"
ONE_QUEUE: Final = "default"
OURS: Final = frozenset({"submit_s", "run_s", "gpus"})
OPTIONAL: Final = frozenset(
    {"queue", "name", "members", "priority", "preemptible", "fraction", "fails_after_s", "owner"}
)
PHILLY: Final = frozenset({"timestamp", "duration", "num_gpus", "cluster"})
LONGEST_S: Final = 1e10
MOST: Final = 100_000
YES: Final = {
    "": True,
    "1": True,
    "true": True,
    "yes": True,
    "0": False,
    "false": False,
    "no": False,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One group of a trace: `members` pods of `gpus` whole GPUs, or of `milli_gpu` of one."""

    name: str
    queue: str
    submit_ms: int
    run_ms: int
    gpus: int
    milli_gpu: int = 0
    members: int = 1
    priority: int = 50
    preemptible: bool = True
    fails_after_ms: int | None = None
    owner: str = ""


def read(file: Path, *, limit: int | None = None) -> list[Arrival]:
    """Return the arrivals in order of time, the first `limit` of them; time starts at 0."""
    with opened(file) as stream:
        rows = csv.DictReader(stream)
        columns = frozenset(rows.fieldnames or ())
        if columns >= PHILLY:
            found = list(_philly(file, rows))
        elif columns >= OURS and columns <= OURS | OPTIONAL:
            found = list(_ours(file, rows))
        else:
            unknown = ", ".join(sorted(columns - OURS - OPTIONAL)) or "none"
            hint = f"Needed are {', '.join(sorted(OURS))}; unknown here: {unknown}."
            raise Located(file, "line 1", "has not the columns of a trace.", hint=hint)
    if not found:
        raise Located(file, "", "holds no arrivals.")
    found.sort(key=lambda arrival: (arrival.submit_ms, arrival.name))
    first = found[0].submit_ms
    return [replace(arrival, submit_ms=arrival.submit_ms - first) for arrival in found[:limit]]


def _ours(file: Path, rows: Iterable[Mapping[str, str]]) -> Iterator[Arrival]:
    for number, row in enumerate(rows, start=2):
        try:
            fails = row.get("fails_after_s") or None
            fraction = row.get("fraction") or None
            yield Arrival(
                name=row.get("name") or f"group-{number - 1}",
                queue=row.get("queue") or ONE_QUEUE,
                submit_ms=_ms(row["submit_s"], least=-LONGEST_S),
                run_ms=_ms(row["run_s"]),
                gpus=0 if fraction else _count(row["gpus"], least=0),
                milli_gpu=parse_milli_gpu(fraction) if fraction else 0,
                members=_count(row.get("members") or "1", least=1),
                priority=int(row.get("priority") or 50),
                preemptible=YES[(row.get("preemptible") or "").lower()],
                fails_after_ms=None if fails is None else _ms(fails),
                owner=row.get("owner") or "",
            )
        except (ValueError, KeyError, RequestError) as error:
            raise Located(file, f"line {number}", f"cannot be read ({error}).") from None


def _ms(text: str, *, least: float = 0) -> int:
    """Return seconds in ms. Raises `ValueError`."""
    seconds = float(text)
    if not least <= seconds <= LONGEST_S:
        raise ValueError(f"{text} is no time in seconds from {least:g} to {LONGEST_S:g}")
    return round(seconds * 1000)


def _count(text: str, *, least: int) -> int:
    """Return how many. Raises `ValueError`."""
    number = int(text)
    if not least <= number <= MOST:
        raise ValueError(f"{text} is no count from {least} to {MOST}")
    return number


def _philly(file: Path, rows: Iterable[Mapping[str, str]]) -> Iterator[Arrival]:
    for number, row in enumerate(rows, start=2):
        try:
            moment = datetime.fromisoformat(f"{row['timestamp']}+00:00")
            yield Arrival(
                name=f"job-{number - 1}",
                queue=row["cluster"],
                submit_ms=round(moment.timestamp() * 1000),
                run_ms=round(float(row["duration"]) * 1000),
                gpus=_count(row["num_gpus"], least=0),
                preemptible=False,
            )
        except ValueError as error:
            raise Located(file, f"line {number}", f"cannot be read ({error}).") from None


def comings(arrivals: Iterable[Arrival], *, node_gpus: int) -> list[Coming]:
    """Return the groups; one too large for a node becomes a gang of node-sized pods."""
    return [_coming(arrival, node_gpus) for arrival in arrivals]


def _coming(arrival: Arrival, node_gpus: int) -> Coming:
    members, gpus = arrival.members, arrival.gpus
    if members == 1 and gpus > node_gpus:
        members = -(-gpus // node_gpus)
        gpus = -(-gpus // members)
    request: GpuRequest | None = WholeGpus(gpus) if gpus else None
    if arrival.milli_gpu:
        request = FractionOfGpu(arrival.milli_gpu)
    kind = Preemptibility.PREEMPTIBLE if arrival.preemptible else Preemptibility.NON_PREEMPTIBLE
    group = PodGroup(
        name=arrival.name,
        namespace=NAMESPACE,
        queue=arrival.queue,
        gang=flat_gang(members),
        priority=arrival.priority,
        preemptibility=kind,
        created=arrival.submit_ms,
        owner=arrival.owner,
    )
    pods = tuple(
        Pod(f"{arrival.name}-{number}", NAMESPACE, group.key, request=PodRequest(gpu=request))
        for number in range(members)
    )
    return Coming(arrival.submit_ms, group, pods, arrival.run_ms, arrival.fails_after_ms)


@dataclass(frozen=True, slots=True)
class Machines:
    """Alike nodes with only their GPUs to run short of."""

    count: int
    gpus: int

    @property
    def milli_gpu(self) -> int:
        """All their GPUs together."""
        return self.count * self.gpus * 1000

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes."""
        return tuple(
            Node(f"node-{number:04}", gpus=self.gpus, gpu_memory_mib=81_920, max_pods=10**6)
            for number in range(self.count)
        )


def in_one_queue(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """Return the arrivals, all in the one queue."""
    return [replace(arrival, queue=ONE_QUEUE) for arrival in arrivals]


def one_queue() -> tuple[Queue, ...]:
    """Return the one queue of everybody, without quota and limit."""
    return (Queue(ONE_QUEUE),)


def even_queues(names: Iterable[str], milli_gpu: int) -> tuple[Queue, ...]:
    """Return leaf queues that share the GPUs evenly, in quota and in what quotas leave."""
    known = sorted(set(names))
    share = QueueShare(quota=milli_gpu // max(1, len(known)), over_quota_weight=1)
    return tuple(Queue(name, created=age, gpu=share) for age, name in enumerate(known))
