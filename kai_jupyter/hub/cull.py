"""`python -m kai_jupyter.hub.cull`: warn idle servers, give their GPUs back, then stop them. A service of JupyterHub.

Rule: what is idle is decided in `culling`; here is only looked and done. A look that fails decides nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import yaml

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.durations import seconds
from kai_jupyter.errors import KaiJupyterError
from kai_jupyter.finding import Endpoint
from kai_jupyter.hub.culling import Facts, Past, Rule, Rules, Step, decide, warning_of
from scheduler_service.wire.cluster import NodeView
from scheduler_service.wire.pod_group import LEASE_KINDS, TERMINAL_STATES, PodGroupView

log = logging.getLogger("kai.cull")
PATIENCE_S = 10.0
PAGE = 200
GRACE_S = 60
BUSY = frozenset({"busy", "starting", "restarting"})


@dataclass(frozen=True, slots=True)
class Server:
    """One running server of the hub."""

    user: str
    name: str
    url: str

    @property
    def key(self) -> str:
        """How its own request is marked."""
        return f"server:{self.name}"

    @property
    def api(self) -> str:
        """Its path in the hub's API."""
        user = quote(self.user, safe="")
        return (
            f"users/{user}/servers/{quote(self.name, safe='')}"
            if self.name
            else f"users/{user}/server"
        )


@dataclass(slots=True)
class Culler:
    """Looks at every server once a round."""

    hub: httpx.AsyncClient
    proxy: httpx.AsyncClient
    kai: AsyncKaiClient
    rules: Rules
    past: dict[tuple[str, str], Past] = field(default_factory=dict)

    async def round(self) -> None:
        """Look at every server and do what is due."""
        servers = await self._servers()
        groups, nodes = await self._of_scheduler()
        now = time.time()
        # Seen for the first time, it has just come up: the hub's own time of the start has the wait in the queue in it.
        seen = {
            (one.user, one.name): self.past.get((one.user, one.name), Past(worked_at=now))
            for one in servers
        }
        self.past = seen
        for server in servers:
            try:
                await self._look_at(server, groups, nodes)
            except (httpx.HTTPError, KaiJupyterError, ValueError) as error:
                log.warning("%s %s: %s", server.user, server.name, error)

    async def _servers(self) -> list[Server]:
        users: list[dict[str, Any]] = []
        while len(users) % PAGE == 0:
            where = {"state": "ready", "limit": str(PAGE), "offset": str(len(users))}
            answer = await self.hub.get("users", params=where)
            answer.raise_for_status()
            users += (page := answer.json())
            if not page:
                break
        return [
            Server(user["name"], name, model["url"])
            for user in users
            for name, model in (user.get("servers") or {}).items()
            if model.get("ready")
        ]

    async def _of_scheduler(self) -> tuple[list[PodGroupView], tuple[NodeView, ...]]:
        """Return who holds what; nothing where the scheduler is away: then only kernels say what works."""
        try:
            listed = await self.kai.groups()
            nodes = await self.kai.nodes()
        except KaiJupyterError as error:
            log.warning("%s", error)
            return [], ()
        return [view for view in listed.items if view.state not in TERMINAL_STATES], nodes

    async def _look_at(
        self, server: Server, groups: list[PodGroupView], nodes: tuple[NodeView, ...]
    ) -> None:
        kernels = await self._asked(server, "api/kernels")
        terminals = await self._asked(server, "api/terminals") or []
        ids = {str(kernel["id"]) for kernel in kernels or ()}
        own = [view for view in groups if view.owner == server.user and _is_of(view, server, ids)]
        now = time.time()
        facts = facts_of(kernels, terminals, own, nodes)
        key = (server.user, server.name)
        rule = self.rules.of(facts.queue)
        step, self.past[key] = decide(facts, self.past[key], rule, now)
        if step is not Step.NOTHING:
            log.info("%s %s: %s", server.user, server.name, step.value)
            await self._do(step, server, own, rule, idle_s=now - self.past[key].worked_at)

    async def _asked(self, server: Server, path: str) -> list[dict[str, Any]] | None:
        """Return what a server says; None where it does not."""
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = await self.proxy.get(f"{server.url.lstrip('/')}{path}")
            if answer.is_success and isinstance(answer.json(), list):
                found: list[dict[str, Any]] = answer.json()
                return found
        return None

    async def _do(
        self, step: Step, server: Server, own: list[PodGroupView], rule: Rule, *, idle_s: float
    ) -> None:
        if step is Step.STOP:
            (await self.hub.request("DELETE", server.api)).raise_for_status()
        elif step is Step.RELEASE:
            for view in (view for view in own if view.kind in LEASE_KINDS):
                reason = f"Idle for {round(idle_s / 60)} min."
                await self.kai.cancel(view.namespace, view.name, grace_s=GRACE_S, reason=reason)
        else:
            is_gpu = any(view.kind in LEASE_KINDS or view.kind == "server" for view in own)
            limit_s = (rule.release_s if is_gpu else rule.stop_s) or 0
            text = warning_of(step, idle_s, limit_s - idle_s)
            path = f"{server.url.lstrip('/')}kai/notices"
            (await self.proxy.post(path, json={"text": text})).raise_for_status()


def _is_of(view: PodGroupView, server: Server, kernels: set[str]) -> bool:
    """Whether a group is this server's own, or of one of its kernels."""
    if view.kind == "server":
        return view.origin.kernel_id == server.key
    return view.kind in LEASE_KINDS and view.origin.kernel_id in kernels


def facts_of(
    kernels: list[dict[str, Any]] | None,
    terminals: list[dict[str, Any]],
    own: list[PodGroupView],
    nodes: tuple[NodeView, ...],
) -> Facts:
    """Return what is known of a server. Pure."""
    if kernels is None:
        return Facts(is_known=False)
    is_working = any(kernel.get("execution_state") in BUSY for kernel in kernels)
    moments = [_moment(one.get("last_activity")) for one in (*kernels, *terminals)]
    return Facts(
        is_busy=is_working or _gpu_works(own, nodes),
        worked_at=max(moments, default=0.0),
        queue=next((view.queue for view in own), ""),
        holds_gpu=any(view.kind == "server" for view in own),
        has_leases=any(view.kind in LEASE_KINDS for view in own),
    )


def _gpu_works(own: list[PodGroupView], nodes: tuple[NodeView, ...]) -> bool:
    """Whether a device that these hold does something, where somebody measures it."""
    names = {(view.namespace, view.name) for view in own}
    return any(
        device.busy_percent
        for node in nodes
        for device in node.devices
        if any((holder.namespace, holder.name) in names for holder in device.holders)
    )


def _moment(text: object) -> float:
    """Return an ISO time in seconds; 0 where there is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def rules_in(text: str) -> Rules:
    """Return the rules that YAML (or JSON) tells: `warn`, `release`, `stop`, and the same below `queues: NAME`."""
    content = yaml.safe_load(text) or {}
    queues = content.pop("queues", None) or {}
    usual = _rule(content, Rule())
    return Rules(usual=usual, queues={name: _rule(item, usual) for name, item in queues.items()})


def _rule(content: dict[str, Any], usual: Rule) -> Rule:
    known = {"warn": usual.warn_s, "release": usual.release_s, "stop": usual.stop_s}
    for name, value in (content or {}).items():
        if name not in known:
            raise SystemExit(f"There is no rule {name!r}: write warn, release or stop.")
        known[name] = None if value in {None, "never"} else seconds(str(value), name)
    return Rule(warn_s=known["warn"], release_s=known["release"], stop_s=known["stop"])


def _text_of(rules: str) -> str:
    """Return rules that are written out, or those of the file that is named."""
    return rules if ":" in rules or not rules else Path(rules).read_text("utf-8")


async def run(arguments: argparse.Namespace) -> None:
    """Look again and again."""
    token = os.environ["JUPYTERHUB_API_TOKEN"]
    headers = {"Authorization": f"token {token}"}
    hub_url = f"{os.environ['JUPYTERHUB_API_URL'].rstrip('/')}/"
    proxy_url = f"{arguments.proxy_url.rstrip('/')}/"
    options: dict[str, Any] = {"headers": headers, "timeout": PATIENCE_S, "trust_env": False}
    async with (
        httpx.AsyncClient(base_url=hub_url, **options) as hub,
        httpx.AsyncClient(base_url=proxy_url, **options) as proxy,
    ):
        kai = AsyncKaiClient(Endpoint(url=arguments.kai_url.rstrip("/"), token=token))
        culler = Culler(hub=hub, proxy=proxy, kai=kai, rules=rules_in(_text_of(arguments.rules)))
        while True:
            try:
                await culler.round()
            except (httpx.HTTPError, KaiJupyterError, ValueError) as error:
                log.warning("this round saw nothing: %s", error)
            await asyncio.sleep(arguments.every_s)


def main() -> None:
    """Run until ended."""
    parser = argparse.ArgumentParser(prog="python -m kai_jupyter.hub.cull", description=__doc__)
    parser.add_argument("--kai-url", required=True, help="Address of the scheduler service.")
    parser.add_argument("--proxy-url", required=True, help="Address of the hub's public proxy.")
    parser.add_argument(
        "--rules", default="", help="A file or the text itself, YAML: warn, release, stop; queues."
    )
    parser.add_argument("--every-s", type=float, default=60.0, help="Seconds between two looks.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
