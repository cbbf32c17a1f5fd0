from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kai_jupyter.client import Endpoint, KaiClient, KaiRequestError, ServiceUnreachable
from scheduler_service.wire.pod_group import TERMINAL_STATES, PodGroupView
from tests.fakes.processes import KAI, ROOT, World, until

DEVICES = 3
POD = """
import json, os, sys, time
out = open(sys.argv[1], "a", buffering=1)
me = {name: os.environ[name] for name in ("KAI_INCARNATION", "KAI_POD", "KAI_GPU_DEVICES", "KAI_GPU_FRACTION")}
me["pid"] = os.getpid()
out.write(json.dumps({"what": "begin", "at": time.monotonic(), **me}) + "\\n")
time.sleep(float(sys.argv[2]))
out.write(json.dumps({"what": "end", "at": time.monotonic(), **me}) + "\\n")
"""
SERVE = ("serve", "--embedded", "--simulate-gpus", f"{DEVICES}x24GiB")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "state")
    yield made
    lock = made.lock()
    if lock is not None:
        os.kill(lock.pid, signal.SIGTERM)
    made.end()
    for pid in runners_of(made.state):
        os.kill(pid, signal.SIGTERM)


def runners_of(state: Path) -> list[int]:
    """Return the runners of this state directory; nobody else's."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"runner" in words and str(state.absolute()).encode() in words:
                found.append(int(entry.name))
    return found


def serve(world: World, *killed_at: str) -> subprocess.Popen[str]:
    """Start the service again, quietly; `killed_at` = step, number, moment of `tests.fakes.killed_at`."""
    program = (sys.executable, "-m", "tests.fakes.service_killed", *killed_at) if killed_at else KAI
    with (world.state.parent / "serve.log").open("ab") as log:
        process = subprocess.Popen(
            (*program, *SERVE),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=world.environment,
            start_new_session=True,
            text=True,
            cwd=ROOT,
        )
    world.started.append(process)
    until(lambda: world.lock() or process.poll() is not None, "the service's lock file")
    assert process.poll() is None, (world.state.parent / "serve.log").read_text()
    return process


def client(world: World) -> KaiClient:
    lock = world.lock()
    token = (world.state / "token").read_text().strip()
    return KaiClient(Endpoint(url=lock.url if lock else "http://127.0.0.1:9", token=token))


def diary_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def all_over(world: World) -> list[PodGroupView] | None:
    try:
        with client(world) as kai:
            items = kai.groups().items
    except (ServiceUnreachable, KaiRequestError, OSError):
        return None
    return list(items) if all(item.state in TERMINAL_STATES for item in items) else None


def told_twice(view: PodGroupView) -> list[str]:
    """Return the lines of its timeline that say more than once how it went: each may be said once only."""
    times = Counter(entry.text for entry in view.timeline)
    return [text for text, count in times.items() if count > 1]
