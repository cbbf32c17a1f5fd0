"""`kai status`, `kai queues`, `kai nodes`: what there is and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduler_service.cli import output
from scheduler_service.cli.client import key_of, service
from scheduler_service.wire.codec import encode
from scheduler_service.wire.pod_group import TERMINAL_STATES
from scheduler_service.words.units import clock_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from scheduler_service.wire.cluster import ForeignProcess, Health, NodeView, QueueView
    from scheduler_service.wire.pod_group import PodGroupView

LATELY = 5


@click.command()
@click.argument("group", metavar="[REQUEST]", required=False)
@click.option(
    "--all", "everyone", is_flag=True, help="Everybody's requests, as far as you may see them."
)
@click.option(
    "--ended",
    is_flag=True,
    help="All that have ended too; without it the last few, where nothing is live.",
)
@output.json_option
def status(group: str | None, *, everyone: bool, ended: bool, as_json: bool) -> None:
    """Show the service and your requests, or one request closely."""
    with service() as client:
        if group is not None:
            view = client.group(*key_of(client, group))
            output.print_json(view) if as_json else _print_group(output.console(), view)
            return
        health = client.health()
        known = client.groups(mine=not everyone).items
    groups = [view for view in known if ended or view.state not in TERMINAL_STATES]
    if as_json:
        output.print_json({"health": encode(health), "groups": [encode(view) for view in groups]})
        return
    _print_health(output.console(), health)
    _print_groups(output.console(), groups or _lately_ended(known))


def _lately_ended(groups: Sequence[PodGroupView]) -> list[PodGroupView]:
    """Return the few that ended last: where nothing is live, that is what one wants to know."""
    over = [view for view in groups if view.state in TERMINAL_STATES]
    return sorted(over, key=lambda view: view.ended_at or 0, reverse=True)[:LATELY]


def _print_groups(console: Console, groups: Sequence[PodGroupView]) -> None:
    if groups:
        console.print(output.group_table(groups))
    else:
        click.echo(
            "No requests. Ask with 'kai submit --gpu 0.5 -- COMMAND' or '%gpu 0.5' in a notebook."
        )


def _print_health(console: Console, health: Health) -> None:
    from rich.text import Text

    state = "ready" if health.ready else "not ready"
    console.print(Text(f"kai {health.version} is {state}: {health.devices_text}."))
    for note in health.notes:
        console.print(Text(note, style="yellow"))


def _print_group(console: Console, view: PodGroupView) -> None:
    from rich.text import Text

    console.print(Text(view.sentence, style=output.STYLE_BY_TONE[view.tone]))
    for note in view.notes:
        console.print(Text(f"  {note}", style="dim"))
    pods = output.table("#rank", "state", "node", "GPU", "exit", "")
    for pod in view.pods:
        devices = ", ".join(f"{share.milli / 1000:g} of GPU {share.index}" for share in pod.devices)
        pods.add_row(
            str(pod.rank),
            pod.state,
            Text(pod.node or ""),
            devices,
            str(pod.signal or ("" if pod.exit_code is None else pod.exit_code)),
            Text(pod.reason.text if pod.reason else ""),
        )
    console.print(pods)
    for entry in view.timeline:
        console.print(Text(f"  {output.age(entry.at, None)} ago  {entry.text}"))


@click.command()
@output.json_option
def queues(*, as_json: bool) -> None:
    """Show the queues: quota, limit, fair share, what is held and who waits."""
    with service() as client:
        found = client.queues()
        machines = () if as_json else client.nodes()
    if as_json:
        output.print_json(found)
        return
    output.console().print(_queue_table(found))
    _print_foreign(output.console(), machines)


def _print_foreign(console: Console, found: Sequence[NodeView]) -> None:
    """Print what no queue has: GPUs that somebody uses without a lease."""
    from rich.text import Text

    for node in found:
        for device in node.devices:
            for use in device.foreign:
                line = f"GPU {device.index} of {node.name}: {_foreign_text(use)}."
                console.print(Text(line, style="yellow"))


def _queue_table(found: tuple[QueueView, ...]) -> object:
    from rich.text import Text

    table = output.table(
        "queue", "#quota", "#limit", "#fair share", "#held", "#asked", "#running", "#waiting", ""
    )
    for queue in found:
        table.add_row(
            Text("  " * queue.depth + queue.name),
            output.gpus(queue.quota),
            output.gpus(queue.limit),
            output.gpus(queue.fair_share),
            output.gpus(queue.allocated),
            output.gpus(queue.requested),
            str(queue.running),
            str(queue.waiting),
            Text(queue.sentence),
        )
        for row in queue.waiting_rows:
            line = f"{'  ' * queue.depth}  {row.position}. {row.who} {row.name} {row.request_text}"
            table.add_row(Text(line, style="dim"), *[""] * 7, Text(row.eta_text, style="dim"))
    return table


@click.command()
@output.json_option
def nodes(*, as_json: bool) -> None:
    """Show nodes and GPUs and who holds what."""
    with service() as client:
        found = client.nodes()
    if as_json:
        output.print_json(found)
        return
    output.console().print(_node_table(found))


def _foreign_text(use: ForeignProcess) -> str:
    who = use.user or "somebody"
    return f"{who} without a lease (process {use.pid}, since {clock_words(use.since)})"


def _node_table(found: tuple[NodeView, ...]) -> object:
    from rich.text import Text

    table = output.table("node", "#GPU", "model", "#memory", "#held", "held by")
    for node in found:
        note = " (simulated)" if node.simulated else ""
        if not node.devices:
            table.add_row(Text(node.name + note), "", "no GPU", "", "", "")
        for device in node.devices:
            holders = [f"{holder.who} {holder.milli / 1000:g}" for holder in device.holders]
            holders += [_foreign_text(use) for use in device.foreign]
            memory = "" if device.memory_mib is None else f"{device.memory_mib / 1024:g} GiB"
            table.add_row(
                Text(node.name + note),
                str(device.index),
                Text(device.model),
                memory,
                f"{device.allocated_milli / 1000:g}",
                Text(", ".join(holders)),
            )
    return table
