"""A real JupyterLab on a real embedded service, and a real browser in front of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    sync_playwright,
)

from tests.browser.screen import ARTIFACTS, Screen
from tools.browser import find
from tools.cell import Server
from tools.environment import BIN, BUILT_LABEXTENSION
from tools.lab import OPTIONS, environment, root_options
from tools.progress import ROOT
from tools.served import free_port, isolated, started

LIVE = {"Waiting", "Starting", "Running", "Stopping", "Suspended"}
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
# Notebook 7 itself logs these on each start.
KNOWN = (
    "Cannot convert undefined or null to object",
    "reading 'schema'",
    "'filebrowser:open-path' not registered",
    # JupyterLab of a kernel that did not start, beside its dialog.
    "Could not restore the debugger state",
    "Kernel is dead",
)


@dataclass(frozen=True)
class Lab:
    """The running JupyterLab, where its notebooks are, and the environment of its service."""

    server: Server
    work: Path
    environment: dict[str, str]

    def kai(self, *arguments: str) -> None:
        """Run the command line on the same service."""
        command = [str(BIN / "kai"), *arguments]
        subprocess.run(
            command, env=self.environment, check=True, capture_output=True, cwd=self.work
        )

    def fill(self) -> None:
        """Hold three quarters of both GPUs with requests that nothing may displace."""
        for name in ("other-1", "other-2"):
            kept = ("--priority", "100", "--not-preemptible", "--run-time", "10m")
            self.kai("submit", "-d", "--gpu", "0.75", *kept, "--name", name, "--", "sleep", "900")

    def free_one(self) -> None:
        """End one of the requests of `fill`; its name has a number where an earlier test had the same."""
        live = [group["name"] for group in self.groups() if group["state"] in LIVE]
        self.kai("cancel", next(name for name in live if name.startswith("other-1")))

    def groups(self) -> list[dict[str, str]]:
        """Return the groups as the page's own server gives them."""
        items: list[dict[str, str]] = json.loads(self.server.get("kai/pod-groups"))["items"]
        return items

    def end_everything(self) -> None:
        """End what a test left."""
        for session in json.loads(self.server.get("api/sessions")):
            self.server.delete(f"api/sessions/{session['id']}")
        for group in self.groups():
            if group["state"] in LIVE:
                path = f"kai/pod-groups/{group['namespace']}/{group['name']}/cancel"
                self.server.post(path, {"grace_s": 0})

    def notebook(self, name: str, *cells: str, kernel_name: str = "python3") -> str:
        """Write a notebook; return its path as the page knows it."""
        written: list[dict[str, object]] = [
            {
                "cell_type": "code",
                "id": f"cell-{index}",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for index, source in enumerate(cells)
        ]
        kernel = {"name": kernel_name, "display_name": kernel_name, "language": "python"}
        document = {
            "cells": written,
            "metadata": {"kernelspec": kernel},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (self.work / name).write_text(json.dumps(document))
        return name


GPU_KERNELS: dict[str, dict[str, object]] = {
    "kai-spare": {"amount": "1", "preemptible": True, "grace": 5},
    "kai-huge": {"amount": "64"},
}
"""GPU kernels beside ours: one that others may take back, one that no machine here can hold."""


def _gpu_kernel(kernels: Path, name: str) -> None:
    """Install one of them."""
    spec = json.loads((ROOT / "kernelspecs" / "kai-gpu" / "kernel.json").read_text())
    spec["metadata"]["kernel_provisioner"]["config"] = GPU_KERNELS[name]
    spec["display_name"] = f"Python on {name}"
    (kernels / name).mkdir(parents=True)
    (kernels / name / "kernel.json").write_text(json.dumps(spec))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Start the browser once, and end it with this folder: it occupies this thread's event loop meanwhile."""
    path = find()
    if path is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    if not (BUILT_LABEXTENSION / "package.json").exists():
        pytest.skip("the lab extension is not built; run `make env`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start JupyterLab as `make lab` does, in a folder of its own."""
    assert chromium.is_connected()
    folder = tmp_path_factory.mktemp("lab")
    own = isolated(environment(), folder) | {"KAI_SIMULATE_GPUS": "2x24GiB"}
    work = folder / "work"
    work.mkdir()
    for name in GPU_KERNELS:
        _gpu_kernel(folder / "data" / "kernels", name)
    command = [
        *(str(BIN / "jupyter"), "lab", *OPTIONS, *root_options(), "--no-browser"),
        f"--ServerApp.port={free_port()}",
        f"--ServerApp.root_dir={work}",
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]
    with started(command, folder, own, cwd=ROOT) as server:
        yield Lab(server=server, work=work, environment=own)


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh profile."""
    context = chromium.new_context(viewport={"width": 1480, "height": 1000})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page whose console must stay free of errors."""
    page = context.new_page()
    errors: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        text = f"{message.text} ({message.location.get('url')})"
        if message.type == "error" and not _is_known(text):
            errors.append(text)

    def failed(error: Error) -> None:
        if not _is_known(str(error)):
            errors.append(str(error))

    page.on("console", heard)
    page.on("pageerror", failed)
    yield page
    assert errors == []


def _is_known(text: str) -> bool:
    # A kernel that did not start answers its socket so; JupyterLab makes the dialog of it.
    is_refused_kernel = "/channels?session_id=" in text and "response code: 500" in text
    # A hub's page of a start that was refused has the status of the refusal.
    is_refused_start = "/hub/spawn-pending/" in text and "status of 403" in text
    return is_refused_kernel or is_refused_start or any(known in text for known in KNOWN)


@pytest.fixture
def screen(page: Page, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Screen]:
    """JupyterLab in the page; nothing of a test is left to the next. A failed test leaves its last picture."""
    failed_before = request.session.testsfailed
    yield Screen(page, lab.server)
    if request.session.testsfailed > failed_before:
        page.screenshot(path=ARTIFACTS / f"last-{request.node.name}.png")
    lab.end_everything()


Pictures = Callable[[str], None]


@pytest.fixture
def keep(page: Page) -> Pictures:
    """Keep a picture of the page for people to look at."""
    ARTIFACTS.mkdir(exist_ok=True)

    def keep(name: str) -> None:
        page.screenshot(path=ARTIFACTS / f"{name}.png")

    return keep
