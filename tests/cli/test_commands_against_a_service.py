"""`kai` as people type it, against the real API around the fake scheduler."""

from __future__ import annotations

import getpass
import json
import signal

import pytest

from tests.fakes.processes import FAKE_SERVER, KAI, until

pytestmark = pytest.mark.process


def test_a_request_is_made_looked_at_and_cancelled(served):
    made = served.kai("submit", "-d", "--json", "--name", "train", "--gpu", "0.5", "--", "true")
    assert made.returncode == 0, made.stderr
    view = json.loads(made.stdout)
    assert (view["name"], view["kind"]) == ("train", "batch")

    listed = served.kai("status")
    assert listed.returncode == 0
    assert "train" in listed.stdout
    assert "2 simulated GPUs" in listed.stdout

    ended = served.kai("cancel", "train", "--json")
    assert json.loads(ended.stdout)[0]["state"] == "Cancelled"
    assert "train" in served.kai("status").stdout  # nothing is live: what ended last
    served.kai("submit", "-d", "--name", "next", "--gpu", "0.5", "--", "true")
    assert "train" not in served.kai("status").stdout
    assert "train" in served.kai("status", "--ended").stdout


LOOKS = (
    "status",
    "queues",
    "nodes",
    "forecast --gpu 0.5",
    "status train",
    "logs train",
    "explain train",
)


@pytest.mark.parametrize("command", LOOKS)
def test_every_answer_is_also_json(shared, command):
    answer = shared.kai(*command.split(), "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) is not None
    assert answer.stderr == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [("status", "a"), ("logs", "b"), ("cancel", "ben/c"), ("explain", "d"), ("extend", "ben/e")],
)
def test_an_unknown_request_is_a_sentence_and_exit_4(shared, command, name):
    answer = shared.kai(command, name)
    assert answer.returncode == 4
    assert "There is no request" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", ["", "/", "a/b/c", "ana/"])
def test_what_can_be_no_request_is_told_apart_from_one_that_is_not_there(shared, name):
    answer = shared.kai("logs", name)
    assert answer.returncode == 2
    assert "names no request" in answer.stderr


@pytest.mark.parametrize("amount", ["half", "-1", "99"])
def test_what_the_service_declines_is_its_own_sentence_and_exit_3(shared, amount):
    answer = shared.kai("submit", f"--gpu={amount}", "--", "true")
    assert answer.returncode == 3
    assert f"'{amount}'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_same_key_makes_one_request(served):
    names = [
        json.loads(served.kai("submit", "-d", "--json", "--key", "k", "--", "true").stdout)["name"]
        for _ in range(2)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])
def test_the_same_key_for_another_command_says_that_it_was_not_made(served, as_json):
    for _ in range(2):
        same = served.kai("submit", "-d", "--name", "k1", "--key", "k", "--", "true")
        assert "key" not in same.stderr
    other = served.kai("submit", "-d", *as_json, "--name", "k2", "--key", "k", "--", "false")
    assert other.returncode == 0
    assert "This key belongs to k1; the new request was not made." in other.stderr
    groups = json.loads(served.kai("status", "--json").stdout)["groups"]
    assert [group["name"] for group in groups] == ["k1"]


@pytest.mark.parametrize("variable", ["=3", "", "="])
def test_a_variable_without_a_name_is_told_before_anything_is_asked(served, variable):
    answer = served.kai("submit", "--env", variable, "--", "true")
    assert answer.returncode == 2
    assert "--env NAME=VALUE" in answer.stderr
    assert json.loads(served.kai("status", "--json").stdout)["groups"] == []


def test_a_variable_that_is_not_there_is_told_before_anything_is_asked(served):
    answer = served.kai("submit", "--env", "KAI_NOT_THERE", "--", "true")
    assert answer.returncode == 2
    assert "KAI_NOT_THERE" in answer.stderr
    assert json.loads(served.kai("status", "--json").stdout)["groups"] == []


def test_ctrl_c_while_waiting_leaves_it_queued_and_says_how_to_come_back(served):
    """When the queue is long and it is lunch time."""
    served.kai("submit", "-d", "--name", "first", "--gpu", "2", "--", "true")
    waiting = served.start(*KAI, "submit", "--name", "second", "--gpu", "2", "--", "true")
    first_line = waiting.stderr.readline()
    assert "second: Waiting" in first_line
    waiting.send_signal(signal.SIGINT)
    _, told = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert "kai logs -f second" in told
    assert "Traceback" not in told
    view = json.loads(served.kai("status", "second", "--json").stdout)
    assert view["state"] == "Waiting"


def test_the_signing_key_is_made_for_its_owner_only(served):
    served.kai("submit", "-d", "--", "true")
    key = served.state / "signing.key"
    assert key.stat().st_mode & 0o077 == 0


def test_a_signing_key_that_others_can_read_is_refused(served):
    served.kai("submit", "-d", "--", "true")
    (served.state / "signing.key").chmod(0o644)
    answer = served.kai("submit", "-d", "--", "true")
    assert answer.returncode == 2
    assert "chmod 600" in answer.stderr


def test_a_reader_that_goes_away_is_no_error(served):
    """`kai queues | head -0`"""
    process = served.start(*KAI, "queues", "--json")
    process.stdout.close()
    process.stdout = None
    _, told = process.communicate(timeout=60)
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


def test_nobody_else_is_asked_for(served):
    view = json.loads(served.kai("submit", "-d", "--json", "--", "true").stdout)
    assert view["namespace"] == view["owner"] == getpass.getuser()


def test_without_a_service_looking_says_how_to_start_one(world):
    answer = world.kai("status")
    assert answer.returncode == 5
    assert "kai serve" in answer.stderr


def test_stop_ends_the_service_and_says_so_and_says_when_there_is_none(served):
    service = served.started[0]
    answer = served.kai("stop")
    assert answer.returncode == 0
    until(lambda: service.poll() is not None, "the end of the service")
    assert "No service runs" in served.kai("stop").stdout


def test_a_wait_survives_a_restart_of_the_service(served):
    """When the service is upgraded while people wait in front of their terminals."""
    served.kai("submit", "-d", "--name", "first", "--gpu", "2", "--", "true")
    waiting = served.start(*KAI, "submit", "--name", "second", "--gpu", "2", "--", "true")
    assert "Waiting" in waiting.stderr.readline()
    served.kai("stop")
    served.serve(
        *FAKE_SERVER
    )  # the fake forgets, so the wait can not find its request: it must not crash
    assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert waiting.returncode == 130
