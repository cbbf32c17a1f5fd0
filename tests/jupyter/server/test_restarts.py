"""A Jupyter server that is killed or stopped, and the next one in the same folder: kernels, notebooks and places."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from kai_jupyter import kernel_records
from kai_jupyter.client import KaiClient
from kai_jupyter.kernel_keeper import keep
from kai_jupyter.kernel_lease import process_of
from kai_jupyter.kernel_records import KernelRecord
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import Process
from tests.jupyter.conftest import eventually, fill, start_service
from tools.cell import Server, run_cell
from tools.environment import BIN
from tools.lab import root_options
from tools.progress import StepError
from tools.served import free_port, isolated

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = start_service(tmp_path_factory.mktemp("service"))
    yield running
    running.stop()


class Jupyter:
    """A Jupyter server in a folder of its own, started as often as a test wants."""

    def __init__(self, folder, service):
        self.root = folder / "work"
        self.root.mkdir()
        (self.root / "train.ipynb").write_text(
            json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        )
        self.environment = isolated(os.environ, folder) | service.environ
        kernels = folder / "data" / "kernels" / "kai-test"
        kernels.mkdir(parents=True)
        spec = json.loads((Path("kernelspecs") / "kai-gpu" / "kernel.json").read_text())
        spec["metadata"]["kernel_provisioner"]["config"] = {"amount": "2"}
        (kernels / "kernel.json").write_text(json.dumps(spec))
        self.log = folder / "jupyter.log"
        self.port = free_port()

    @contextmanager
    def running(self, end_with=signal.SIGTERM):
        """Run the server until the block ends."""
        command = [str(BIN / "jupyter"), "server", *root_options(), "--no-browser"]
        options = [f"--ServerApp.root_dir={self.root}", f"--ServerApp.port={self.port}"]
        token = "--IdentityProvider.token=t"
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, *options, token], env=self.environment, stdout=log, stderr=log
            )
        server = Server(url=f"http://127.0.0.1:{self.port}/", token="t")
        try:
            eventually(lambda: self._answers(server, process), "the server answers")
            yield server
        finally:
            process.send_signal(end_with)
            process.wait(60)

    def _answers(self, server, process):
        assert process.poll() is None, self.log.read_text()[-4000:]
        runtime = Path(self.environment["JUPYTER_RUNTIME_DIR"])
        if not (runtime / f"jpserver-{process.pid}.json").exists():
            return False
        try:
            return json.loads(server.get("kai/health"))["connected"]
        except StepError:
            return False


@pytest.fixture
def jupyter(tmp_path, service):
    yield Jupyter(tmp_path, service)
    with service.client() as client:
        for view in client.groups(mine=True).items:
            if not view.ended_at:
                client.cancel(view.namespace, view.name, grace_s=0)


def session_of(server):
    ask = {"path": "train.ipynb", "name": "train.ipynb", "type": "notebook"}
    return json.loads(server.post("api/sessions", ask | {"kernel": {"name": "kai-test"}}))


def sessions(server):
    return {s["id"]: s["kernel"]["id"] for s in json.loads(server.get("api/sessions"))}


def written(service, kernel_id, is_running):
    """Whether the kernel is written down, with its notebook."""
    records = kernel_records.read_all(service.state / "kernels")
    found = [record for record in records if record.kernel_id == kernel_id]
    return bool(found and found[0].session and found[0].is_running is is_running)


def only(client, state):
    (view,) = client.groups(mine=True, state=state).items
    return view


def test_a_kernel_that_runs_is_taken_up_with_its_variables(jupyter, service):
    with service.client() as client:
        with jupyter.running(signal.SIGKILL) as first:
            session = session_of(first)
            kernel_id = session["kernel"]["id"]
            told = run_cell(first, kernel_id, "import os; x = 41; print(os.getpid())")
            eventually(lambda: written(service, kernel_id, is_running=True), "it is written down")
            before = only(client, "Running")
        with jupyter.running() as second:
            eventually(lambda: sessions(second), "the notebook has its kernel again")
            assert sessions(second) == {session["id"]: kernel_id}
            again = run_cell(second, kernel_id, "print(os.getpid(), x + 1)")
            assert again.text().split() == [*told.text().split(), "42"]
            assert only(client, "Running").name == before.name
            second.post(f"api/kernels/{kernel_id}/restart", {})
            assert run_cell(second, kernel_id, "x").error == "NameError: name 'x' is not defined"
            assert only(client, "Running").name == before.name
            second.delete(f"api/sessions/{session['id']}")
            eventually(lambda: not live(client), "the lease is given back")
        assert list(kernel_records.read_all(service.state / "kernels")) == []


def live(client):
    return [view for view in client.groups(mine=True).items if not view.ended_at]


@pytest.mark.parametrize("end_with", [signal.SIGKILL, signal.SIGTERM])
def test_a_kernel_that_waits_keeps_its_place(jupyter, service, end_with):
    with service.client() as client:
        holds = fill(client)
        with jupyter.running(end_with) as first:
            session = session_of(first)
            kernel_id = session["kernel"]["id"]
            eventually(lambda: written(service, kernel_id, is_running=False), "it is written down")
            before = only(client, "Waiting")
        after_it = fill(client)
        with jupyter.running() as second:
            eventually(lambda: sessions(second), "the notebook has its kernel again")
            assert sessions(second) == {session["id"]: kernel_id}
            assert client.group(before.namespace, before.name).position == 1
            client.cancel(holds.namespace, holds.name, grace_s=0)
            told = run_cell(second, kernel_id, "import os; print(os.environ['KAI_POD_GROUP'])")
            assert told.text().strip() == before.name
            assert client.group(after_it.namespace, after_it.name).state == "Waiting"


def test_a_service_that_restarts_keeps_the_place(tmp_path, monkeypatch):
    """The server extension finds it gone, and starts it."""
    state = tmp_path / "service"
    state.mkdir()
    own = start_service(state)
    monkeypatch.setenv("KAI_STATE_DIR", str(state))
    jupyter = Jupyter(tmp_path, own)
    jupyter.environment["KAI_SIMULATE_GPUS"] = "2x24GiB"
    with own.client() as client:
        holds = fill(client)
    with jupyter.running() as server:
        kernel_id = session_of(server)["kernel"]["id"]
        with own.client() as client:
            eventually(lambda: client.groups(mine=True, state="Waiting").items, "it waits")
            before = only(client, "Waiting")
        own.stop()
        eventually(lambda: locate.read_lock(state), "the service is back")
        with KaiClient(start=False) as client:
            assert only(client, "Waiting").name == before.name
            client.cancel(holds.namespace, holds.name, grace_s=0)
            told = run_cell(server, kernel_id, "import os; print(os.environ['KAI_POD_GROUP'])")
        assert told.text().strip() == before.name
    own.stop()


def test_a_kernel_of_a_server_that_lives_is_left_alone(jupyter, service, tmp_path):
    with jupyter.running() as first:
        kernel_id = session_of(first)["kernel"]["id"]
        eventually(lambda: written(service, kernel_id, is_running=True), "it is written down")
        jupyter.port = free_port()
        with jupyter.running() as second:
            assert sessions(second) == {}
        assert run_cell(first, kernel_id, "6 * 7").text() == "42"


class TestTheKeeper:
    """Ends what nobody takes up. Time passes when the keeper pauses."""

    def record(self, where, server, kernel=None):
        record = KernelRecord(
            kernel_id="k-1",
            kernel_name="kai-gpu",
            root="/work",
            server=server,
            connection_file="",
            process=kernel,
            lease=("ana", "kernel"),
        )
        kernel_records.write(record, where)

    @pytest.fixture
    def kernel(self):
        with subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=-1, start_new_session=True
        ) as p:
            yield p
            p.kill()

    def test_a_kernel_that_nobody_takes_up_is_ended(self, tmp_path, kernel):
        gone = Process(pid=os.getpid(), start_ticks=1)
        self.record(tmp_path, gone, process_of(kernel.pid))
        pauses = []
        keep(gone, tmp_path, 600, pauses.append)

        assert kernel.wait() < 0
        assert len(pauses) >= 600
        assert list(tmp_path.iterdir()) == []

    def test_one_that_another_server_has_taken_up_is_not(self, tmp_path, kernel):
        gone = Process(pid=os.getpid(), start_ticks=1)
        self.record(tmp_path, process_of(os.getpid()), process_of(kernel.pid))
        keep(gone, tmp_path, 600, pytest.fail)

        assert kernel.poll() is None

    def test_it_waits_while_its_server_lives(self, tmp_path):
        class Waited(Exception):
            pass

        def pause(_seconds):
            raise Waited

        with pytest.raises(Waited):
            keep(process_of(os.getpid()), tmp_path, 0, pause)

    def test_a_place_that_nobody_takes_up_is_forgotten(self, tmp_path):
        gone = Process(pid=os.getpid(), start_ticks=1)
        self.record(tmp_path, gone)
        keep(gone, tmp_path, 5, lambda _: None)

        assert list(tmp_path.iterdir()) == []
