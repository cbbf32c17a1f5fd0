"""How well a cluster fills up: pods come and never go, each is tried once (the openb protocol).

Source: "Beware of Fragmentation" (USENIX ATC'23). The pod list is shuffled by a seed and brought to
130 % of the GPUs; equal nodes stand in an order permuted by the seed; what does not fit is dropped.
The measure is the part of all GPUs that is not allocated when 100 % of them were asked for.
"""

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.gpu import FractionOfGpu, GpuRequest, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Bind
from scheduler_service.model.pod import NodeAffinity, Pod, PodRequest, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan
from scheduler_service.simulate.source import Located
from scheduler_service.simulate.table import opened

POD_COLUMNS: Final = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
NODE_COLUMNS: Final = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
NODE_LIST: Final = "openb_node_list_gpu_node.csv"
DEMAND_PERCENT: Final = 130
MIB: Final = 2**20
MODEL: Final = "gpu-model"
NAMESPACE: Final = "trace"
QUEUE: Final = "default"
EXPECTED: Final = "expected"
BATCH: Final = 1000
"""Pods that one plan takes up where the mix of requests is known."""
SMALL_BATCH: Final = 100
"""The same where it is learned from those that came before."""


@dataclass(slots=True)
class Packing:
    """How a cluster filled up."""

    total_milli: int
    nodes: int
    pods: int = 0
    placed: int = 0
    asked_milli: int = 0
    held_milli: int = 0
    at_whole: list[float] = field(default_factory=list)
    """Unallocated percent at each moment at which the demand rounds to 100 percent."""
    series: list[tuple[float, float]] = field(default_factory=list)
    """Percent asked for, percent allocated."""

    @property
    def unallocated_percent(self) -> float:
        """The measure: the mean over the moments of whole demand."""
        return sum(self.at_whole) / len(self.at_whole) if self.at_whole else 0.0

    def note(self, asked: int, *, is_placed: bool) -> None:
        """Count a pod."""
        self.pods += 1
        self.asked_milli += asked
        if is_placed:
            self.placed += 1
            self.held_milli += asked
        demand = 100 * self.asked_milli / self.total_milli
        held = 100 * self.held_milli / self.total_milli
        self.series.append((demand, held))
        if round(demand) == 100:  # noqa: PLR2004 - percent
            self.at_whole.append(100 - held)

    def points(self, most: int = 200) -> list[tuple[float, float]]:
        """Return about so many points of the series."""
        return self.series[:: max(1, len(self.series) // most)]

    def content(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "nodes": self.nodes,
            "gpus": self.total_milli / 1000,
            "pods": self.pods,
            "placed": self.placed,
            "unallocated_percent": round(self.unallocated_percent, 3),
            "series": [
                {"asked_percent": round(asked, 2), "allocated_percent": round(held, 2)}
                for asked, held in self.points()
            ],
        }


def read_nodes(file: Path, seed: int) -> tuple[Node, ...]:
    """Return the nodes, named in an order that the seed gives."""
    with opened(file) as stream:
        rows = list(_rows(file, csv.DictReader(stream), NODE_COLUMNS))
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    return tuple(
        Node(
            f"{place:05}-{row['sn']}",
            gpus=int(row["gpu"]),
            milli_cpu=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * MIB,
            max_pods=10**6,
            labels={MODEL: row["model"]},
        )
        for place, row in zip(order, rows, strict=True)
    )


def read_pods(file: Path) -> list[Pod]:
    """Return the pods of a list, pending, each to be a group of its own."""
    with opened(file) as stream:
        return [_pod(row) for row in _rows(file, csv.DictReader(stream), POD_COLUMNS)]


def _rows(
    file: Path, rows: "csv.DictReader[str]", columns: frozenset[str]
) -> Iterator[Mapping[str, str]]:
    missing = columns - set(rows.fieldnames or ())
    if missing:
        raise Located(file, "line 1", f"lacks the columns {', '.join(sorted(missing))}.")
    for number, row in enumerate(rows, start=2):
        try:
            for column in columns - {"name", "sn", "model"}:
                int(row[column] or 0)
        except (TypeError, ValueError) as error:
            raise Located(file, f"line {number}", f"cannot be read ({error}).") from None
        yield row


def _pod(row: Mapping[str, str]) -> Pod:
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"] or 0)
    gpu: GpuRequest | None = None
    if count == 1 and 0 < milli < 1000:  # noqa: PLR2004 - a whole GPU
        gpu = FractionOfGpu(milli)
    elif count:
        gpu = WholeGpus(count)
    models = tuple(name for name in row.get("gpu_spec", "").split("|") if name)
    return Pod(
        row["name"],
        NAMESPACE,
        "",
        request=PodRequest(
            gpu=gpu,
            milli_cpu=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * MIB,
        ),
        node_affinity=(NodeAffinity(MODEL, models),) if models else (),
    )


def asked_milli(pod: Pod) -> int:
    """Return what a pod asks for of all GPUs."""
    match pod.request.gpu:
        case WholeGpus(count=count):
            return count * 1000
        case FractionOfGpu(milli=milli):
            return milli
        case _:
            return 0


def tuned(pods: Sequence[Pod], milli_gpu: int, seed: int) -> list[Pod]:
    """Return the list shuffled, with pods drawn again or dropped until the demand is 130 %."""
    source = random.Random(seed)  # noqa: S311 - an order, no secret
    found = list(pods)
    source.shuffle(found)
    wanted = milli_gpu * DEMAND_PERCENT // 100
    demand = sum(map(asked_milli, found))
    while demand < wanted:
        found.append(source.choice(pods))
        demand += asked_milli(found[-1])
    while demand > wanted and demand - asked_milli(found[-1]) >= wanted:
        demand -= asked_milli(found.pop())
    return found


def run(
    pods: Sequence[Pod], nodes: Sequence[Node], policy: Policy, expected: Sequence[Pod] = ()
) -> Packing:
    """Return how the nodes fill up when the pods come in this order.

    `expected`: pods like those that come, known beforehand. They are in the book as pods of a
    group that is not there, so that policies which look at what is asked for know them. A plan
    takes up a batch in its order; that is the same as pod by pod, since nobody ever leaves.
    """
    ledger = Ledger.from_snapshot(Snapshot(nodes=tuple(nodes), queues=(Queue(QUEUE),)))
    rules = msgspec.structs.replace(policy, actions=("allocate",))
    result = Packing(sum(node.gpus for node in nodes) * 1000, len(nodes))
    if not result.total_milli:
        return result
    for number, pod in enumerate(expected):
        known = {"name": f"{EXPECTED}-{number}", "group": f"{NAMESPACE}/{EXPECTED}"}
        ledger.apply(events.PodAdded(msgspec.structs.replace(pod, **known)))
    size = BATCH if expected else SMALL_BATCH
    for first in range(0, len(pods), size):
        batch = pods[first : first + size]
        placed = _try(ledger, rules, batch, first)
        for number, pod in enumerate(batch, start=first):
            result.note(asked_milli(pod), is_placed=number in placed)
    return result


def _try(ledger: Ledger, policy: Policy, batch: Sequence[Pod], first: int) -> set[int]:
    """Let pods come; they stay where the plan puts them, or go. Return the numbers of who stays."""
    came: dict[str, int] = {}
    for number, pod in enumerate(batch, start=first):
        name = f"{pod.name}-{number}"
        group = PodGroup(name=name, namespace=NAMESPACE, queue=QUEUE, created=number)
        own = msgspec.structs.replace(pod, name=name, group=group.key)
        came[own.key] = number
        ledger.apply(events.PodGroupAdded(group))
        ledger.apply(events.PodAdded(own))
    placed: set[int] = set()
    for operation in plan(ledger, policy, first).operations():
        if isinstance(operation, Bind):
            place = (operation.node, operation.devices)
            ledger.apply(events.PodStateChanged(operation.pod, PodState.RUNNING, *place))
            placed.add(came.pop(operation.pod))
    for key in came:
        ledger.apply(events.PodRemoved(key))
        ledger.apply(events.PodGroupRemoved(key))
    return placed
