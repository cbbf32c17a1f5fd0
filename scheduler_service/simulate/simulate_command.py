"""`kai simulate`: a scenario or a trace under a virtual clock, as a table, JSON and a chart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler_service.errors import ConfigurationError
from scheduler_service.model.policy import NodeStrategy, Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.simulate import chart, packing, reader, rounds, source, story, trace
from scheduler_service.simulate.chart import time_text
from scheduler_service.simulate.clock import Clock
from scheduler_service.simulate.packing import Packing
from scheduler_service.simulate.result import LARGE, QueueResult, Result
from scheduler_service.simulate.snapshot_commands import (
    OK,
    PolicyName,
    doubt,
    policy_named,
    print_json,
    unusable,
)
from scheduler_service.simulate.table import columns_of
from scheduler_service.simulate.trace import Machines

FOR_NON_PREEMPTIBLE: Final = ("allocate", "evict_stale_gangs")
"""Where nothing may be preempted the other actions find no victim; left out, a run takes a third of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How to run it. `nodes`: "88x8" or a list of nodes as CSV; `gpus`: one pool of so many."""

    policy: PolicyName = "default"
    nodes: str | None = None
    gpus: int | None = None
    by_queue: bool = False
    seed: int = 42
    placement: NodeStrategy | None = None
    """Where pods go, instead of what the policy says."""
    learn: bool = False
    """Whether a placement run knows nothing of its mix of requests beforehand."""
    until_s: float | None = None
    limit: int | None = None


def simulate(
    file: Path, wishes: Wishes, *, chart_file: Path | None = None, as_json: bool = False
) -> int:
    """Run a scenario, or a trace of work, and say how it went."""
    try:
        result = run(file, wishes)
        if chart_file is not None:
            chart.write(chart_file, result)
    except ConfigurationError as error:
        return unusable(str(error))
    if as_json:
        print_json(result.content())
    elif isinstance(result, Packing):
        _print_packing(Console(highlight=False, soft_wrap=True), result)
    else:
        _print(Console(highlight=False, soft_wrap=True), result)
    return OK


def run(file: Path, wishes: Wishes) -> Result | Packing:
    """Return what a file's work comes to; its suffix and first fields say what it is."""
    if file.suffix not in source.SUFFIXES:
        if columns_of(file) >= packing.POD_COLUMNS:
            return _pack(file, wishes)
        return _run_trace(file, wishes)
    raw = source.read(file)
    base = _policy(wishes)
    if not story.is_story(raw):
        scenario = reader.scenario_of(file, raw, base)
        doubt(scenario.world.snapshot)
        return rounds.run(scenario)
    told = story.story_of(file, raw, base)
    clock = Clock(told.cluster, told.policy, told.comings[: wishes.limit], told.failures)
    return clock.run(_until_ms(wishes))


def _policy(wishes: Wishes) -> Policy:
    policy = policy_named(wishes.policy)
    if wishes.placement is None:
        return policy
    placed = msgspec.structs.replace(policy.placement, gpu=wishes.placement, cpu=wishes.placement)
    return msgspec.structs.replace(policy, placement=placed)


def _until_ms(wishes: Wishes) -> int | None:
    return None if wishes.until_s is None else round(wishes.until_s * 1000)


def machines_of(nodes: str | None, gpus: int | None) -> Machines:
    """Return the machines that "88x8" (nodes x GPUs) or a pool of GPUs names; else 8x8."""
    if gpus is not None:
        return Machines(1, gpus)
    count, _, each = (nodes or "8x8").partition("x")
    if not (count.isdigit() and each.isdigit() and int(count) and int(each)):
        raise ConfigurationError(
            f"{nodes!r} names no nodes.", hint="Write nodes x GPUs, such as 8x8."
        )
    return Machines(int(count), int(each))


def _run_trace(file: Path, wishes: Wishes) -> Result:
    machines = machines_of(wishes.nodes, wishes.gpus)
    arrivals = trace.read(file, limit=wishes.limit)
    if wishes.by_queue:
        queues = trace.even_queues((a.queue for a in arrivals), machines.milli_gpu)
    else:
        arrivals, queues = trace.in_one_queue(arrivals), trace.one_queue()
    cluster = Snapshot(nodes=machines.nodes(), queues=queues)
    comings = trace.comings(arrivals, node_gpus=machines.gpus)
    policy = _policy(wishes)
    if not any(arrival.preemptible for arrival in arrivals):
        policy = msgspec.structs.replace(policy, actions=FOR_NON_PREEMPTIBLE)
    return Clock(cluster, policy, comings).run(_until_ms(wishes))


def _pack(file: Path, wishes: Wishes) -> Packing:
    node_list = Path(wishes.nodes) if wishes.nodes else file.with_name(packing.NODE_LIST)
    nodes = packing.read_nodes(node_list, wishes.seed)
    milli_gpu = sum(node.gpus for node in nodes) * 1000
    listed = packing.read_pods(file)
    pods = packing.tuned(listed, milli_gpu, wishes.seed)[: wishes.limit]
    return packing.run(pods, nodes, _policy(wishes), () if wishes.learn else listed)


COLUMNS: Final[Mapping[str, Callable[[QueueResult], str]]] = {
    "arrived": lambda queue: str(queue.arrived),
    "started": lambda queue: str(queue.started),
    "failed": lambda queue: str(queue.failed),
    "evicted": lambda queue: str(queue.evictions),
    "lost": lambda queue: str(queue.lost),
    "mean wait": lambda queue: time_text(queue.mean_wait_ms()),
    "p95": lambda queue: time_text(queue.wait_ms(0.95)),
    "worst": lambda queue: time_text(queue.wait_ms(1)),
    "GPU-h": lambda queue: f"{queue.gpu_ms / 3_600_000_000:.1f}",
}
WHERE_ANY: Final = frozenset({"failed", "lost"})


def _print(console: Console, result: Result) -> None:
    whole = result.all_queues()
    shown = [name for name in COLUMNS if name not in WHERE_ANY or COLUMNS[name](whole) != "0"]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("queue", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for name, queue in sorted(result.queues.items()):
        table.add_row(Text(name), *(COLUMNS[column](queue) for column in shown))
    if len(result.queues) > 1:
        table.add_row("all", *(COLUMNS[column](whole) for column in shown))
    console.print(table)
    gpus = f"{result.total_milli_gpu / 1000:g} GPUs, {result.utilisation():.1%} of the time held"
    console.print(Text(f"{result.cycles} plans; {gpus}."))
    if whole.large_waits_ms:
        waits = whole.content()["large"]["wait_s"]
        mean, p95, worst = (time_text(round(waits[name] * 1000)) for name in ("mean", "p95", "max"))
        console.print(
            Text(
                f"{len(whole.large_waits_ms)} groups of {LARGE} GPUs or more: mean wait {mean}, "
                f"p95 {p95}, worst {worst}."
            )
        )


def _print_packing(console: Console, result: Packing) -> None:
    console.print(
        Text(
            f"{result.placed} of {result.pods} pods found a place on {result.nodes} nodes with "
            f"{result.total_milli / 1000:g} GPUs."
        )
    )
    if not result.at_whole:
        console.print(Text("The demand did not reach 100 % of the GPUs."))
        return
    console.print(
        Text(f"When all GPUs were asked for, {result.unallocated_percent:.2f} % were not held.")
    )
