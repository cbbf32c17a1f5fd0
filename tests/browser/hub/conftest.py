"""A real JupyterHub with its proxy, our spawner, and the scheduler as its service, in front of a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.screen import AXE, FAIL_SAFE_MS
from tools.environment import LABEXTENSION, build_environment
from tools.progress import ROOT
from tools.served import free_port, isolated

PROXY = (
    LABEXTENSION / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
)
TESTER = "t" * 40
PATIENCE_S = 180
LIVE = {"Waiting", "Starting", "Running", "Stopping"}
QUEUES = """
queues:
  team-a: {gpu: {quota: 1, limit: 2}, subjects: ["group:team-a"]}
  team-b: {gpu: {quota: 1, limit: 1}, subjects: ["group:team-b"]}
"""
CONFIG = """
import os, sys
from kai_jupyter.hub import setup
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
never = {{"release": "never", "stop": "never"}}
soon = {{"warn": "1s", "release": "60s", "stop": "60s"}}
cull = {{**never, "queues": {{"team-b": soon}}}}
setup(c, spawner="simple", port={kai}, leads={{"team-a-leads": "team-a"}}, cull=cull)
c.JupyterHub.services[0]["environment"] = {environment!r}
c.JupyterHub.services[1]["command"] += ["--every-s", "2"]
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.command = ["node", {proxy!r}]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = {folder!r} + "/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"root"}}
c.JupyterHub.db_url = "sqlite:///" + {folder!r} + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = {folder!r} + "/cookie"
c.JupyterHub.allow_named_servers = True
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 1}}
c.JupyterHub.load_groups = {{
    "team-a": {{"users": ["ana", "lea", "amy"]}},
    "team-a-leads": {{"users": ["lea"]}},
    "team-b": {{"users": ["ben", "bob"]}},
}}
c.Spawner.args = {args!r}
c.Spawner.http_timeout = 60
c.KaiSpawning.kai_profiles = [
    {{"name": "plain", "title": "Plain"}}, {{"name": "broken", "title": "Broken", "cmd": ["false"]}}]
c.Spawner.environment = {{"JUPYTER_CONFIG_PATH": {settings!r}}}
c.SimpleLocalProcessSpawner.home_dir_template = {folder!r} + "/{{username}}"
c.JupyterHub.services.append({{"name": "tester", "api_token": {tester!r}}})
c.JupyterHub.load_roles.append({{"name": "tester-role", "services": ["tester"], "scopes": [
    "admin:users", "admin:servers", "tokens", "access:servers", "custom:kai:admin", "custom:kai:request"]}})
{more}
"""


@dataclass
class Hub:
    """A running hub: how tests speak to it and to the scheduler behind it."""

    url: str
    kai_url: str
    folder: Path
    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    # -- the process ------------------------------------------------------------------------------
    def start(self) -> None:
        """Start it and wait until it and its scheduler answer."""
        with (self.folder / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        self.until(lambda: self._answers(f"{self.url}hub/api/"), "the hub answers")
        self.until(lambda: self._answers(f"{self.kai_url}/api/v1/ready"), "the scheduler answers")

    def stop(self) -> None:
        """End it as an operator does."""
        process = self.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answers(self, url: str) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(url, timeout=5).is_success
        return False

    def log(self) -> str:
        """Return the end of what it wrote."""
        return (self.folder / "hub.log").read_text(errors="replace")[-6000:]

    def until(self, is_met: Callable[[], object], what: str) -> Any:
        """Wait until something holds; return it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = is_met()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"not within {PATIENCE_S} s: {what}\n{self.log()}")

    # -- the hub's API ----------------------------------------------------------------------------
    def api(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask the hub's API as the tester."""
        return httpx.request(
            method,
            f"{self.url}hub/api/{path}",
            headers={"Authorization": f"token {TESTER}"},
            json=body,
            timeout=PATIENCE_S,
        )

    def user(self, name: str) -> dict[str, Any]:
        """Return what the hub says of a person."""
        model: dict[str, Any] = self.api("GET", f"users/{name}").json()
        return model

    def server(self, name: str, server: str = "") -> dict[str, Any] | None:
        """Return a person's server, None while it is none."""
        model: dict[str, Any] | None = self.user(name).get("servers", {}).get(server)
        return model

    def spawn(self, name: str, server: str = "", **options: str) -> httpx.Response:
        """Ask for a server by REST."""
        path = f"users/{name}/servers/{server}" if server else f"users/{name}/server"
        return self.api("POST", path, {"display_name": server, "user_options": options})

    def ready(self, name: str, server: str = "") -> dict[str, Any]:
        """Wait until a server is ready; return it."""

        def is_ready() -> dict[str, Any] | None:
            found = self.server(name, server)
            return found if found and found["ready"] else None

        model: dict[str, Any] = self.until(is_ready, f"{name}'s server {server} is ready")
        return model

    def end_server(self, name: str, server: str = "") -> None:
        """Stop a server and wait until it is gone."""
        path = f"users/{name}/servers/{server}" if server else f"users/{name}/server"
        self.api("DELETE", path)
        self.until(lambda: not self.server(name, server), f"{name}'s server {server} is gone")

    def token(self, name: str) -> str:
        """Return a token of a person, with all they may."""
        if name not in self.tokens:
            self.api("POST", "users", {"usernames": [name]})
            answer = self.api("POST", f"users/{name}/tokens", {"note": "test"})
            self.tokens[name] = answer.json()["token"]
        return self.tokens[name]

    def of_server(self, name: str, path: str) -> httpx.Response:
        """Ask a person's server, through the proxy."""
        headers = {"Authorization": f"token {TESTER}"}
        return httpx.get(f"{self.url}user/{name}/{path}", headers=headers, timeout=PATIENCE_S)

    # -- the scheduler ----------------------------------------------------------------------------
    def kai(self, method: str, path: str, *, who: str | None = None, body: object = None) -> Any:
        """Ask the scheduler, as a person or as the tester."""
        token = TESTER if who is None else self.token(who)
        return httpx.request(
            method,
            f"{self.kai_url}/api/v1{path}",
            headers={"Authorization": f"Bearer {token}"},
            json=body,
            timeout=PATIENCE_S,
        )

    def groups(self, owner: str | None = None) -> list[dict[str, Any]]:
        """Return the live groups, of one person or of all."""
        items: list[dict[str, Any]] = self.kai("GET", "/pod-groups").json()["items"]
        return [
            item
            for item in items
            if item["state"] in LIVE and (owner is None or item["owner"] == owner)
        ]

    def hold(self, who: str, gpu: str, **fields: object) -> dict[str, Any]:
        """Let a person hold GPUs, by this very process."""
        pid = os.getpid()
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        process = {"pid": pid, "start_ticks": int(ticks)}
        body = {"kind": "server", "gpu": gpu, "process": process, **fields}
        answer = self.kai("POST", "/pod-groups", who=who, body=body)
        assert answer.is_success, answer.text
        group: dict[str, Any] = answer.json()
        return group

    def cancel(self, group: dict[str, Any]) -> None:
        """End a group."""
        path = f"/pod-groups/{group['namespace']}/{group['name']}/cancel"
        assert self.kai("POST", path, body={"grace_s": 0}).is_success

    def clear(self) -> None:
        """End everything that a test left."""
        for user in self.api("GET", "users").json():
            for server in list(self.user(user["name"]).get("servers", {})):
                self.end_server(user["name"], server)
        for group in self.groups():
            self.cancel(group)
        self.until(lambda: not self.groups(), "nothing is held")


def config_of(folder: Path, *, more: str = "") -> tuple[str, str, str]:
    """Return a hub's configuration, its public address and its scheduler's."""
    ports = {name: free_port() for name in ("public", "hub", "api", "kai")}
    state = folder / "kai"
    state.mkdir()
    (state / "queues.yaml").write_text(QUEUES)
    environment = {"KAI_STATE_DIR": str(state), "KAI_SIMULATE_GPUS": "2x24GiB"}
    args = ["--allow-root"] if os.geteuid() == 0 else []
    args += ["--LabApp.news_url=None", "--LabApp.expose_app_in_browser=True"]
    args += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    text = CONFIG.format(
        **ports,
        environment=environment,
        proxy=str(PROXY),
        folder=str(folder),
        args=args,
        settings=str(ROOT / "tools" / "jupyter"),
        tester=TESTER,
        more=more,
    )
    return text, f"http://127.0.0.1:{ports['public']}/", f"http://127.0.0.1:{ports['kai']}"


@contextlib.contextmanager
def running_hub(folder: Path, *, more: str = "") -> Iterator[Hub]:
    """Run a hub until the block ends."""
    text, url, kai_url = config_of(folder, more=more)
    config = folder / "jupyterhub_config.py"
    config.write_text(text)
    own = isolated(build_environment(), folder) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "jupyterhub", "-f", str(config)]
    hub = Hub(url=url, kai_url=kai_url, folder=folder, command=command, environment=own)
    try:
        hub.start()
        yield hub
        hub.clear()
    finally:
        hub.stop()


@pytest.fixture(scope="package")
def a_hub(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Start a hub once."""
    assert chromium.is_connected()
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def hub(a_hub: Hub) -> Iterator[Hub]:
    """Give the hub with nothing of an earlier test left in it."""
    yield a_hub
    a_hub.clear()


@dataclass
class Person:
    """Somebody in front of a browser."""

    page: Page
    hub: Hub
    name: str

    def logs_in(self) -> None:
        """Log in."""
        self.page.set_default_timeout(FAIL_SAFE_MS)
        self.page.goto(f"{self.hub.url}hub/login")
        self.page.locator("#username_input").fill(self.name)
        self.page.locator("#password_input").fill("x")
        with self.page.expect_navigation():
            self.page.locator("#login_submit").click()

    def opens(self, path: str) -> None:
        """Open a page of the hub."""
        self.page.goto(f"{self.hub.url}{path}")

    def card(self, share: str) -> Any:
        """Return a card of the start page."""
        return self.page.locator(f".jp-Kai-Option[data-share='{share}']")

    def starts_with(self, share: str, server: str = "") -> None:
        """Choose a share at the start page and press the button."""
        self.opens(f"hub/spawn/{self.name}/{server}".rstrip("/"))
        self.page.locator("#kai-start[data-ready]").wait_for()
        self.card(share).locator("input").check()
        self.page.locator("#kai-go").click()

    def violations(self) -> list[str]:
        """Return what axe finds in our part of the page."""
        self.page.add_script_tag(path=AXE)
        script = """async () => {
          const { violations } = await window.axe.run({ include: [['.jp-Kai-Hub']] });
          return violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html} ${n.failureSummary}`));
        }"""
        found: list[str] = self.page.evaluate(script)
        return found

    def begins(self, code: str) -> None:
        """Start a cell in a new kernel, and do not wait for it."""
        self.page.evaluate(BEGIN_CELL, code)

    def runs(self, code: str) -> str:
        """Run a cell in a new kernel of this person's server, from the page; return what it printed."""
        script = RUN_CELL
        said: str = self.page.evaluate(script, code)
        return said


BEGIN_CELL = """async code => {
  const { sessions } = window.jupyterapp.serviceManager;
  await sessions.ready;
  const kernel = { name: 'python3' };
  const session = await sessions.startNew({ path: 'y.ipynb', type: 'notebook', name: 'y', kernel });
  session.kernel.requestExecute({ code });
}"""
RUN_CELL = """async code => {
  const { sessions } = window.jupyterapp.serviceManager;
  await sessions.ready;
  const kernel = { name: 'python3' };
  const session = await sessions.startNew({ path: 'x.ipynb', type: 'notebook', name: 'x', kernel });
  const done = session.kernel.requestExecute({ code });
  const said = [];
  done.onIOPub = message => said.push(message.content.text ?? message.content.evalue ?? '');
  await done.done;
  await session.shutdown();
  return said.join('');
}"""


@pytest.fixture
def person(page: Page, hub: Hub) -> Callable[[str], Person]:
    """Return somebody who is logged in."""

    def logged_in(name: str) -> Person:
        somebody = Person(page, hub, name)
        somebody.logs_in()
        return somebody

    return logged_in


DEVICES = """import json, os
names = ('KAI_GPU_FRACTION', 'KAI_GPU_DEVICES', 'CUDA_VISIBLE_DEVICES')
print(json.dumps({name: os.environ.get(name) for name in names}))"""


def said(text: str) -> dict[str, Any]:
    """Return JSON that a cell printed."""
    found: dict[str, Any] = json.loads(text)
    return found
