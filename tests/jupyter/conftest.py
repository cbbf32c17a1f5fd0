"""A real embedded service for the module, found as a notebook finds it."""

import atexit
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403 - a plug-in can be named in the top conftest only

from kai_jupyter import session as sessions
from kai_jupyter.client import KaiClient
from kai_jupyter.finding import Endpoint, find_service
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import Process, Submit

FAIL_SAFE_S = 60.0


@dataclass(frozen=True)
class Service:
    state: Path
    endpoint: Endpoint

    @property
    def environ(self):
        """What a process needs to find this service."""
        return {
            "KAI_STATE_DIR": str(self.state),
            "KAI_SIGNING_KEY_FILE": str(self.state / "signing.key"),
        }

    def client(self):
        return KaiClient(self.endpoint)

    def stop(self):
        lock = locate.read_lock(self.state)
        if lock is not None:
            os.kill(lock.pid, signal.SIGTERM)
            eventually(lambda: locate.start_ticks(lock.pid) is None, "the service ends")


def eventually(is_true, what):
    """Wait for an observed state; fail only after a generous time."""
    deadline = time.monotonic() + FAIL_SAFE_S
    while not is_true():
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain: {what}")
        time.sleep(0.02)


def start_service(state):
    """Start the embedded service as a notebook would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAI_STATE_DIR", str(state))
        patch.setenv("KAI_SIMULATE_GPUS", "2x24GiB")
        return Service(state, find_service())


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = start_service(tmp_path_factory.mktemp("service"))
    yield running
    with running.client() as client:
        for view in client.groups(mine=True).items:
            if not view.ended_at:
                client.cancel(view.namespace, view.name, grace_s=0)
    running.stop()


@pytest.fixture
def embedded(service, monkeypatch):
    """The service, named by the environment of this process; nothing of other tests is live."""
    for name, value in service.environ.items():
        monkeypatch.setenv(name, value)
    yield service
    with service.client() as client:
        for view in client.groups(mine=True).items:
            if not view.ended_at:
                client.cancel(view.namespace, view.name, grace_s=0)
        eventually(
            lambda: all(v.ended_at for v in client.groups(mine=True).items),
            "all requests have ended",
        )


@pytest.fixture
def shell(embedded, monkeypatch):
    """An IPython shell with the magics, and a session of its own."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setattr(sessions, "_sessions", [])
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "kai_jupyter")
    yield shell
    made = sessions.in_use()
    if made is not None:
        made.devices.take()
        made.close()
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()


@pytest.fixture
def cell(shell, capsys):
    """Run a cell; return what it printed. A cell that fails raises what it failed with."""

    def run(source):
        capsys.readouterr()
        result = shell.run_cell(source)
        printed = capsys.readouterr()
        sys.stderr.write(printed.err)
        run.output, run.errors = printed.out, printed.err
        result.raise_error()
        return printed.out

    return run


def fill(client, gpu=2, **more):
    """Let another process (this one's parent) hold devices."""
    parent = os.getppid()
    process = Process(pid=parent, start_ticks=locate.start_ticks(parent))
    return client.submit(Submit(kind="lease", gpu=gpu, process=process, **more))
