"""Ana and Ben are two accounts of one machine: each runs as themselves, and neither reaches the other's work."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import httpx
import pytest

from kai_jupyter.own_runner import is_running
from scheduler_service.wire import locate
from tests.fakes.processes import KAI, until

pytestmark = pytest.mark.process

LEASE = """
import sys, time
from kai_jupyter.client import KaiClient
from kai_jupyter.identity import this_process
from scheduler_service.wire.pod_group import Submit

with KaiClient() as client:
    ask = Submit(kind="lease", name=sys.argv[1], gpu=sys.argv[2], process=this_process())
    print(client.submit(ask).name, flush=True)
    time.sleep(600)
"""


def lease_in_a_kernel(person, name, gpu):
    """Start a process of the person's that asks for a lease for itself, and stays until it is ended."""
    return person.start(sys.executable, "-c", LEASE, name, gpu)


def sleeping(person, name, *, gpu="1"):
    """Submit work that lasts, and return once it runs."""
    command = ("sh", "-c", f"id -un > {person.home}/{name}.who; exec sleep 600")
    answer = person.kai("submit", "-d", "--name", name, "--gpu", gpu, "--", *command)
    assert answer.returncode == 0, answer.stderr
    return person.becomes(name, "Running")


def test_the_socket_says_who_asks(people):
    for person in (people.ana, people.ben):
        status, text = person.ask("GET", "/me")
        assert (status, json.loads(text)["user"]) == (200, person.name)
        assert "admin" not in json.loads(text)["scopes"]
    _, lead = people.lea.ask("GET", "/me")
    assert "lead:team" in json.loads(lead)["scopes"]
    _, admin = people.root.ask("GET", "/me")
    assert "admin" in json.loads(admin)["scopes"]
    _, nobody = people.ana.ask("GET", "/me", headers={"Authorization": "Bearer root-token"})
    assert json.loads(nobody)["code"] == "unauthenticated"


def test_each_persons_processes_run_as_that_person(people):
    """With a runner that the command line started, whose folder nobody else can look into."""
    for person in (people.ana, people.ben):
        group = sleeping(person, "work")
        assert (group["owner"], group["namespace"]) == (person.name, person.name)
        until(lambda p=person: (p.home / "work.who").read_text(), "the work said who it is")
        assert (person.home / "work.who").read_text().strip() == person.name
        assert (person.home / "work.who").stat().st_uid == person.uid
        for path in (person.state / "machines").rglob("*"):
            info = path.lstat()
            assert info.st_uid == person.uid, path
        assert not (person.state / "service.json").exists()  # nobody started a service of their own


def test_output_and_exit_come_back_to_who_asked(people):
    answer = people.ana.kai("submit", "--gpu", "0.5", "--", "sh", "-c", "id -un; exit 3")
    assert answer.returncode == 1
    assert answer.stdout.strip() == people.ana.name


def test_nobody_stops_anothers_work(people):
    sleeping(people.ana, "train")
    answer = people.ben.kai("cancel", f"{people.ana.name}/train")
    assert answer.returncode == 4, answer.stderr
    assert people.ana.group("train")["state"] == "Running"
    mine = people.ben.kai("status", "--all", "--json")
    assert people.ana.name not in mine.stdout
    lead = people.lea.kai(
        "cancel", f"{people.ana.name}/train", "--grace", "0", "--reason", "cleaning"
    )
    assert lead.returncode == 0, lead.stderr
    ended = people.ana.becomes("train", "Cancelled")
    assert people.lea.name in ended["sentence"]
    assert "cleaning" in ended["sentence"]


def test_a_full_machine_is_a_queue_between_them(people):
    """A lease in Ana's kernel holds both GPUs; Ben waits with a reason and starts when she lets go."""
    kernel = lease_in_a_kernel(people.ana, "both", "2")
    assert kernel.stdout.readline() == "both\n"
    people.ana.becomes("both", "Running")
    answer = people.ben.kai("submit", "-d", "--name", "next", "--gpu", "1", "--", "true")
    assert answer.returncode == 0, answer.stderr
    waiting = people.ben.becomes("next", "Waiting")
    until(lambda: people.ben.group("next")["position"], "the place in the queue")
    waiting = people.ben.group("next")
    assert waiting["position"] == 1
    assert people.ana.name not in json.dumps(waiting)
    _, nodes = people.ben.ask("GET", "/nodes")
    assert "a colleague" in nodes
    assert people.ana.name not in nodes
    kernel.kill()
    people.ben.becomes("next", "Succeeded")


def test_a_lease_can_not_be_hung_on_anothers_process(people):
    """Or Ben's program would be taken for Ana's, and its GPU for hers."""
    ben = people.ben.start("sleep", "600")
    process = {"pid": ben.pid, "start_ticks": locate.start_ticks(ben.pid)}
    body = {"kind": "lease", "gpu": "1", "process": process}
    status, text = people.ana.ask("POST", "/pod-groups", body=body)
    assert (status, json.loads(text)["code"]) == (403, "others_process")
    assert people.ben.ask("POST", "/pod-groups", body=body)[0] == 201
    ben.kill()


def test_work_that_its_owner_did_not_sign_is_not_begun(people):
    """When whoever got hold of the service slips work under somebody: the runner has the key, the service not."""
    mark = people.ana.home / "slipped"
    work = {"command": ["touch", str(mark)], "workdir": str(people.ana.home), "env": {}}
    sleeping(people.ana, "runner", gpu="0.1")  # so that her runner is there
    body = {"kind": "batch", "name": "slipped", "gpu": "0.1", "work": work, "signature": "0" * 64}
    assert people.ana.ask("POST", "/pod-groups", body=body)[0] == 201
    ended = people.ana.becomes("slipped", "Failed")
    assert "not signed with your key" in json.dumps(ended)
    assert not mark.exists()
    for key in (people.ana.state / "signing.key", people.ben.state / "signing.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert not list(people.machine.account.home.rglob("signing.key"))
    assert people.ana.state.joinpath("signing.key").stat().st_uid == people.ana.uid


def test_what_runs_outlives_the_service_and_its_end_is_booked(people):
    """When the service is upgraded under running work: the runners wait for it, whether it ends or is killed."""
    go = people.ana.home / "go"
    command = ("sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; echo after")
    people.ana.kai("submit", "-d", "--name", "long", "--gpu", "1", "--", *command)
    people.ana.becomes("long", "Running")
    people.machine.stop_service()
    assert people.machine.socket.is_socket()
    away = people.ben.kai("status")
    assert away.returncode == 5
    assert str(people.machine.socket) in away.stderr
    assert not (people.ben.state / "service.json").exists()
    people.machine.serve(*people.options)
    go.touch()
    people.ana.becomes("long", "Succeeded")
    assert people.ana.kai("logs", "long").stdout == "after\n"


def test_a_queue_takes_only_whom_it_names(people):
    """Ben writes the leads' queue into his request, and a priority that only a lead may give."""
    body = {"kind": "batch", "gpu": "0.1", "work": {"command": ["true"]}, "signature": "0" * 64}
    status, text = people.ben.ask("POST", "/pod-groups", body=body | {"queue": "leads"})
    assert (status, json.loads(text)["code"]) == (403, "not_your_queue")
    urgent = body | {"queue": "team", "priority": 5000}
    status, text = people.ben.ask("POST", "/pod-groups", body=urgent)
    assert (status, json.loads(text)["code"]) == (422, "bad_priority")
    assert people.lea.ask("POST", "/pod-groups", body=urgent | {"name": "urgent"})[0] == 201
    assert people.lea.ask("POST", f"/pod-groups/{people.lea.name}/urgent/cancel", body={})[0] == 200


def test_a_notebook_server_brings_its_persons_runner(people):
    """Nobody types `kai`: a page asks, the server extension answers for its person alone."""
    server = people.ben.start(
        *(sys.executable, "-m", "jupyter_server", "--ServerApp.ip=127.0.0.1"),
        *("--ServerApp.port=0", "--IdentityProvider.token=t", "--no-browser"),
    )
    told = (
        people.ben.home / ".local" / "share" / "jupyter" / "runtime" / f"jpserver-{server.pid}.json"
    )
    until(told.exists, "the server listens")
    url = json.loads(told.read_text())["url"]
    headers = {"Authorization": "token t"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as page:
        (folder,) = [people.ben.state / "machines" / os.uname().nodename]
        until(lambda: folder.exists() and is_running(folder), "Ben's runner is there")
        health = page.get("kai/health").json()
        assert health["url"] == str(people.machine.socket)
        process = {"pid": server.pid, "start_ticks": locate.start_ticks(server.pid)}
        ask = {"kind": "lease", "name": "mine", "gpu": "1", "process": process, "queue": "team"}
        made = page.post("kai/pod-groups", json=ask)
        assert made.status_code == 201, made.text
        assert made.json()["owner"] == people.ben.name
        people.ben.becomes("mine", "Running")
        hers = page.get(f"kai/pod-groups/{people.ana.name}/train")
        assert hers.status_code == 404
    server.kill()


def test_a_second_service_finds_the_first(people):
    folder = people.machine.account.home / "other"
    answer = people.machine.account.kai(
        "serve", "--shared", "--state-dir", str(folder), "--socket", str(people.machine.socket)
    )
    assert answer.returncode == 2
    assert "Another service listens" in answer.stderr


def test_root_is_refused_in_a_sentence(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("is about root")
    import subprocess

    answer = subprocess.run(
        [
            *KAI,
            "serve",
            "--shared",
            "--state-dir",
            str(tmp_path / "s"),
            "--socket",
            str(tmp_path / "k"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert answer.returncode == 2
    assert "does not run as root" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "s").exists()
