"""Whoever asks sees to it that this person's runner is there, once, where the service is the machine's shared one."""

from __future__ import annotations

import fcntl
import os
import stat

import pytest

from kai_jupyter import finding, own_runner
from kai_jupyter.errors import ServiceUnreachable
from kai_jupyter.finding import Endpoint
from kai_jupyter.own_runner import ensure_runner, is_running
from scheduler_service.wire import locate


@pytest.fixture
def started(monkeypatch):
    """What would be started."""
    found = []
    monkeypatch.setattr(own_runner, "_start", lambda socket, folder: found.append((socket, folder)))
    return found


def test_a_runner_that_is_not_there_is_started(started):
    ensure_runner(Endpoint(url=locate.SOCKET_URL, socket="/run/x.sock"))
    assert started == [("/run/x.sock", locate.own_runner_dir())]
    assert stat.S_IMODE(locate.own_runner_dir().stat().st_mode) == 0o700


def test_one_that_lives_is_left_alone(started):
    folder = locate.own_runner_dir()
    folder.mkdir(parents=True)
    assert not is_running(folder)
    lock = os.open(folder / locate.RUNNER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    assert not is_running(folder)
    fcntl.flock(lock, fcntl.LOCK_EX)
    ensure_runner(Endpoint(url=locate.SOCKET_URL, socket="/run/x.sock"))
    os.close(lock)
    assert started == []
    assert not is_running(folder)


def test_a_service_of_ones_own_starts_its_own_runner(started):
    ensure_runner(Endpoint(url="http://127.0.0.1:1", token="t"))
    assert started == []


def test_a_home_that_can_not_be_written_is_a_sentence(monkeypatch, tmp_path, started):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KAI_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.raises(ServiceUnreachable, match="KAI_STATE_DIR"):
        ensure_runner(Endpoint(url=locate.SOCKET_URL, socket="/run/x.sock"))
    assert started == []


def test_each_machine_has_a_folder_of_its_own(monkeypatch):
    """When the home directory lies on a server and several workstations use it."""
    monkeypatch.setattr("socket.gethostname", lambda: "one")
    one = locate.own_runner_dir()
    monkeypatch.setattr("socket.gethostname", lambda: "two")
    assert one.parent == locate.own_runner_dir().parent
    assert one != locate.own_runner_dir()


def test_the_machines_socket_comes_before_a_service_of_ones_own(monkeypatch, tmp_path):
    """Also when nobody listens there: a service beside it would give the same GPUs out again."""
    import socket

    path = tmp_path / "kai.sock"
    monkeypatch.setenv("KAI_SOCKET", str(path))
    monkeypatch.setattr(finding, "_running", lambda: Endpoint(url="http://127.0.0.1:1"))
    assert finding.find_service().socket is None
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
    assert finding.find_service().socket == str(path)
    monkeypatch.setenv("KAI_SERVICE_URL", "http://127.0.0.1:7")
    monkeypatch.setattr(finding, "_read_token", lambda _path: "t")
    assert finding.find_service().url == "http://127.0.0.1:7"
