"""The service is killed and comes back: handles say so, places and leases are kept."""

import os
import signal

import pytest

from kai_jupyter import session as sessions
from scheduler_service.wire import locate
from tests.jupyter.conftest import eventually, fill, start_service

pytestmark = pytest.mark.process


@pytest.fixture
def service(tmp_path):
    """A service of the test's own: it will be killed."""
    running = start_service(tmp_path / "service")
    yield running
    running.stop()


def kill(service):
    lock = locate.read_lock(service.state)
    os.kill(lock.pid, signal.SIGKILL)
    eventually(lambda: locate.start_ticks(lock.pid) is None, "the service is dead")


@pytest.fixture
def embedded(service, monkeypatch):
    for name, value in service.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KAI_SIMULATE_GPUS", "2x24GiB")
    return service


def test_a_waiting_request_says_offline_and_keeps_its_place(cell, shell, embedded):
    with embedded.client() as client:
        fill(client)
    cell("h = %gpu 1")
    handle = shell.user_ns["h"]
    assert handle.state == "Waiting"
    kill(embedded)

    eventually(lambda: "Offline" in handle.text, "the card says so")
    assert "Position 1 of 1" in handle.text
    told = cell("%gpu")

    assert "Waiting" in told
    assert "Position 1 of 1" in told
    with sessions.current().client as client:
        for view in client.groups(mine=True).items:
            if not view.ended_at:
                client.cancel(view.namespace, view.name, grace_s=0)


def test_a_gang_runs_on_and_its_value_comes_back(cell, shell, embedded, tmp_path):
    """Workers outlive the service; whoever asks next starts it again, and it adopts them."""
    gate = tmp_path / "gate"
    cell(f"gate = {str(gate)!r}\n")
    cell(
        "%%gang -n 2 --out done --name tough\n"
        "import os, time\n"
        "while not os.path.exists(gate):\n"
        "    time.sleep(0.05)\n"
        "done = 'yes'"
    )
    from kai_jupyter import gang

    handle = gang("tough")
    assert handle.wait_until(lambda view: view.state == "Running", 60)
    kill(embedded)
    gate.touch()

    assert handle.result() == "yes"
