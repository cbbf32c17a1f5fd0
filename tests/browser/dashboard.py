"""The dashboard as a lead starts it, on a service with a busy afternoon, and as they use it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from scheduler_service.store.overlays import Overlay
from tests.browser.screen import AXE, FAIL_SAFE_MS
from tests.fakes.team_service import TeamService
from tools.environment import BIN
from tools.lab import environment
from tools.progress import ROOT
from tools.served import free_port, isolated

TOKEN = "a-token-of-the-tests"
PATIENCE_S = 180


@dataclass(frozen=True)
class Dashboard:
    """Where it is served, by which process, and the service behind it."""

    url: str
    process: int
    team: TeamService

    @property
    def kernels(self) -> int:
        """How many kernels it runs now."""
        found = 0
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                is_kernel = b"ipykernel_launcher" in (entry / "cmdline").read_bytes()
                found += parent == self.process and is_kernel
        return found

    def open(self, page: Page, query: str = "") -> Locator:
        """Open the page; return it once it is drawn."""
        page.set_default_timeout(FAIL_SAFE_MS)
        page.goto(f"{self.url}?token={TOKEN}{query}")
        board = page.locator(".jp-Kai-Board")
        expect(board).to_be_visible()
        return board

    def overlays(self) -> list[Overlay]:
        """Return what leads changed, newest first."""
        return sorted(self.team.service.overlays, key=lambda overlay: -overlay.id)

    def overlay(self, kind: str) -> Overlay:
        """Return the newest change of a kind."""
        return next(overlay for overlay in self.overlays() if overlay.kind == kind)

    def told(self, owner: str) -> list[str]:
        """Return what was told to somebody of what a lead did."""
        changes = self.team.service.changes
        return [
            item.notice.text
            for item in tuple(changes._notices)
            if item.notice.kind == "lead" and item.group_key.startswith(f"{owner}/")
        ]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Dashboard]:
    """Serve the dashboard for a lead; kernels that nobody looks at are ended after half a minute."""
    with TeamService(folder / "service") as team:
        token = folder / "mira.token"
        token.write_text("mira-token")
        token.chmod(0o600)
        own = isolated(environment(), folder)
        own |= {"KAI_SERVICE_URL": team.url, "KAI_TOKEN_FILE": str(token)}
        port = free_port()
        command = [
            *(str(BIN / "python"), "-m", "kai_jupyter.dashboards.serve", "--no-browser"),
            *(f"--port={port}", f"--token={TOKEN}"),
            "--MappingKernelManager.cull_idle_timeout=30",
            "--MappingKernelManager.cull_interval=1",
        ]
        log = folder / "dashboard.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=own, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            _until_filled(log, process)
            yield Dashboard(f"http://127.0.0.1:{port}/", process.pid, team)
        finally:
            process.terminate()
            process.wait(timeout=60)


def _until_filled(log: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the first kernel is warm."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if "is filled with 1 kernel" in text:
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the dashboard did not start:\n{log.read_text(errors='replace')[-3000:]}")


def status(url: str, *, method: str = "GET", token: str = TOKEN) -> int:
    """Return how an address answers to whom has this token; a redirect to sign in counts as 403."""
    request = urllib.request.Request(
        url, method=method, headers={"Authorization": f"token {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return 403 if "/login" in answer.url else int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def violations(page: Page) -> list[str]:
    """Return what axe finds on the whole page."""
    page.add_script_tag(path=AXE)
    found: list[str] = page.evaluate(
        "async () => (await axe.run()).violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html))"
    )
    return found


def painted_ms(page: Page) -> float:
    """Return when the first contentful paint was, and note it beside the pictures."""
    return float(
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1")
    )


def note_figures(folder: Path, **figures: Any) -> None:
    """Keep figures for people to read; nothing compares them."""
    folder.mkdir(exist_ok=True)
    figures["load"] = os.getloadavg()[0]
    (folder / "team-figures.json").write_text(json.dumps(figures, indent=1))
