"""`kai runner`, `kai agent`: the processes beside the service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler_service.cli import output
from scheduler_service.cli.endings import FAILED, Ends
from scheduler_service.wire import locate

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler_service.agent.nvml import Devices


@click.command()
@click.option("--url", help="Address of the service; without it: the one of the state directory.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help="Socket of this machine's shared service; no token is needed there.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Your token; without it: the state directory's.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where the pods have their folders. [KAI_STATE_DIR]",
)
def runner(
    url: str | None, socket: Path | None, token_file: Path | None, state_dir: Path | None
) -> None:
    """Start and watch the processes of your granted requests, until the service sends it away."""
    from scheduler_service.errors import ConfigurationError
    from scheduler_service.runner.main import run_own_runner, run_runner

    if socket is not None:
        run_own_runner(
            socket=socket.absolute(),
            state_dir=(state_dir or locate.own_runner_dir()).absolute(),
            key_file=locate.signing_key_path().absolute(),
        )
        return
    state = (state_dir or locate.state_dir()).absolute()
    lock = locate.read_lock(state)
    address = url or (lock.url if lock else None)
    if address is None:
        raise ConfigurationError(
            "The runner does not know its service.",
            why=f"None runs for {state}.",
            hint="Start it with 'kai serve', or name it with --url.",
        )
    run_runner(url=address, token_file=token_file or state / "token", state_dir=state)


@click.command()
@output.json_option
@click.option(
    "--node",
    envvar="KAI_NODE_NAME",
    show_envvar=True,
    help="In a cluster: keep them on this Node as an annotation, written on change, until ended.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    envvar="KAI_AGENT_EVERY_S",
    show_envvar=True,
    show_default=True,
    help="Seconds between two looks, with --node.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How the cluster is reached, with --node; in a pod: by its service account. [KUBECONFIG]",
)
def agent(*, as_json: bool, node: str | None, every_s: float, kubeconfig: Path | None) -> None:
    """Report the GPUs of this node: identity, memory, what uses them."""
    from scheduler_service.agent.nvml import Nvml, Trouble

    nvml = Nvml()
    if node:
        from scheduler_service.backends.kubernetes.node_agent import run_agent

        run_agent(nvml.read, node=node, every_s=every_s, kubeconfig=kubeconfig)
        return
    try:
        found = nvml.read()
    finally:
        nvml.close()
    if isinstance(found, Trouble):
        raise Ends(FAILED, found.text)
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_devices_table(found))


def _devices_table(found: Devices) -> Table:
    from rich.text import Text

    table = output.table("#GPU", "model", "#memory", "#used", "#busy", "processes", "id")
    for device in found.devices:
        table.add_row(
            str(device.index),
            Text(device.name),
            _mib(device.memory_mib),
            _mib(device.used_mib),
            "" if device.utilisation_percent is None else f"{device.utilisation_percent} %",
            ", ".join(str(process.pid) for process in device.processes),
            device.uuid,
        )
    for lost in found.lost:
        table.add_row("", Text(lost, style="red"))
    return table


def _mib(amount: int | None) -> str:
    return "" if amount is None else f"{amount / 1024:.1f} GiB"
