"""The process `kai binder`: options, connection, Lease, probes, and an orderly end at SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.binder.binder import Binder
from scheduler_service.backends.kubernetes.binder.metrics import Metrics
from scheduler_service.backends.kubernetes.binder.options import BinderOptions, Sharing
from scheduler_service.backends.kubernetes.binder.probes import served
from scheduler_service.backends.kubernetes.binder.world import configured_at_start
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.leader import Leader
from scheduler_service.errors import BackendError, ConfigurationError

LEASE = "kai-binder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line said."""

    kubeconfig: Path | None = None
    sharing: Sharing = "reservation"
    workers: int = 64
    reservation_image: str = ""
    reservation_template: Path | None = None
    lease: bool = True
    lease_namespace: str = ""
    listen: str = ""

    def options(self) -> BinderOptions:
        """Return what the binder is told."""
        return BinderOptions(
            sharing=self.sharing,
            workers=self.workers,
            reservation_image=self.reservation_image,
            reservation_template=_template(self.reservation_template),
        )


def _template(path: Path | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path} can not be read.", why=str(error)) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is not the spec of a pod.")
    return content


def run(flags: Flags) -> None:
    """Work until SIGTERM or Ctrl-C; leave with 1 when the Lease is lost, so that the kubelet starts us anew."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kai").setLevel(logging.INFO)
    asyncio.run(_until_told(flags))


async def _until_told(flags: Flags) -> None:
    work = asyncio.create_task(_work(flags))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        logging.getLogger("kai.binder").info("ended as told")


async def _work(flags: Flags) -> None:
    access = Access.load(flags.kubeconfig)
    metrics = Metrics()
    async with KubeClient(access, connections=flags.workers + 16) as client:
        named = (await configured_at_start(client, flags.options())).reservation_namespace
        binder = Binder(client, replace(flags.options(), reservation_namespace=named), metrics)
        leader = Leader(client, LEASE, namespace=flags.lease_namespace or access.namespace)

        def is_ready() -> bool:
            """Who stands by is as ready as it can be: an upgrade and a drain wait for no more."""
            return binder.is_ready or (flags.lease and not leader.is_leading)

        async with served(flags.listen, is_ready, metrics):
            if not flags.lease:
                await binder.run()
                return
            await leader.acquire()
            try:
                await _while_leading(leader, binder)
            finally:
                await leader.release()


async def _while_leading(leader: Leader, binder: Binder) -> None:
    """Work as long as the Lease is ours; whoever loses it ends, so that two never bind beside each other."""
    work = asyncio.create_task(binder.run())
    keep = asyncio.create_task(leader.keep())
    try:
        await asyncio.wait({work, keep}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        raise BackendError(
            "The binder no longer leads.", why="Its Lease could not be renewed, or another took it."
        )
    finally:
        for task in (work, keep):
            task.cancel()
        await asyncio.wait({work, keep})
