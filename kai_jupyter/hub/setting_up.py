"""`setup(c)`: everything that a `jupyterhub_config.py` needs for GPUs by the queue, in one call."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

READ, REQUEST, LEAD = "custom:kai:read", "custom:kai:request", "custom:kai:lead"
SCOPES = {
    READ: {"description": "See the GPU queues"},
    REQUEST: {"description": "Ask for GPUs", "subscopes": [READ]},
    LEAD: {"description": "Manage a team's GPU queue", "subscopes": [REQUEST]},
    "custom:kai:admin": {"description": "See and end everything in the GPU queues"},
}
CULLER = {
    "name": "kai-cull",
    "description": "Stops idle servers and gives their GPUs back",
    "scopes": [
        "list:users",
        "read:servers",
        "delete:servers",
        "access:servers",
        "custom:kai:admin",
    ],
}
SPAWNERS = {
    "local": "kai_jupyter.hub.local.KaiLocalSpawner",
    "simple": "kai_jupyter.hub.local.KaiSimpleSpawner",
    "kubernetes": "kai_jupyter.hub.kube.KaiSpawner",
}
SERVER_SCOPES = ["users:activity!user", "access:servers!server", REQUEST]
DEFAULT_PORT = 8890


def setup(
    c: Any,
    *,
    spawner: Literal["local", "simple", "kubernetes"] | str | None = "local",
    service_url: str = "",
    port: int = DEFAULT_PORT,
    leads: dict[str, str] | None = None,
    cull: dict[str, Any] | None = None,
) -> None:
    """Turn on start pages with forecasts, the spawner, scopes and roles.

    `service_url`: where the scheduler answers; without it the hub starts one of its own on `port` of this machine.
    `leads`: who leads what: a hub group, and the group (and queue of the same name) that its people answer for.
    `cull`: when idle servers are warned, lose their GPUs and are stopped, such as `{"warn": "30m", "release": "1h",
    "stop": "4h", "queues": {"batch": {"release": "15m"}}}`; None: never.
    `spawner`: None leaves the class as it is set elsewhere.
    """
    from kai_jupyter.hub.forms import TEMPLATES
    from kai_jupyter.hub.handlers import handlers

    hub = c.JupyterHub
    hub.custom_scopes = {**_now(hub, "custom_scopes", {}), **SCOPES}
    hub.load_roles = [*_now(hub, "load_roles", []), *_roles(leads or {})]
    hub.template_paths = [*_now(hub, "template_paths", []), str(TEMPLATES)]
    hub.extra_handlers = [*_now(hub, "extra_handlers", []), *handlers()]
    # People who wait for a GPU are not a storm of starts: the usual 100 would turn others away.
    hub.concurrent_spawn_limit = _now(hub, "concurrent_spawn_limit", 0)
    c.Spawner.server_token_scopes = list(
        {*_now(c.Spawner, "server_token_scopes", []), *SERVER_SCOPES}
    )
    if spawner is not None:
        hub.spawner_class = SPAWNERS.get(spawner, spawner)
    if not service_url:
        service_url = f"http://127.0.0.1:{port}"
        hub.services = [*_now(hub, "services", []), _service(port)]
    c.KaiSpawning.kai_url = service_url
    if cull is not None:
        hub.services = [*_now(hub, "services", []), _culler(cull, service_url, _public(hub))]
        hub.load_roles = [*hub.load_roles, {**CULLER, "services": ["kai-cull"]}]


def _service(port: int) -> dict[str, Any]:
    """Return the scheduler as a service that the hub starts, watches and ends."""
    command = [sys.executable, "-m", "kai_jupyter.hub.serve", "--port", str(port)]
    return {"name": "kai", "command": command}


def _public(hub: Any) -> str:
    """Return where the hub's proxy answers on this machine."""
    return str(_now(hub, "bind_url", "http://127.0.0.1:8000"))


def _culler(rules: dict[str, Any], service_url: str, proxy_url: str) -> dict[str, Any]:
    """Return the culler as a service of the hub."""
    places = ["--kai-url", service_url, "--proxy-url", proxy_url]
    command = [sys.executable, "-m", "kai_jupyter.hub.cull", *places]
    return {"name": "kai-cull", "command": [*command, "--rules", json.dumps(rules)]}


def _roles(leads: dict[str, str]) -> list[dict[str, Any]]:
    of_leads = [
        {
            "name": f"kai-lead-{number}",
            "description": f"Leads the GPU queue {team}",
            "groups": [group],
            "scopes": [f"{LEAD}!group={team}"],
        }
        for number, (group, team) in enumerate(leads.items(), 1)
    ]
    return [{"name": "user", "scopes": ["self", REQUEST]}, *of_leads]


def _now(section: Any, name: str, default: Any) -> Any:
    """Return what is set already; traitlets' configuration makes lazy values for what is not."""
    return section.get(name, default) if name in section else default
