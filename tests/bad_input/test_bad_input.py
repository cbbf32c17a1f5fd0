"""What bad input gets, where a person meets it: a sentence, never a traceback, and nothing of it is kept.

Through the command line and the real service. What a notebook alone can get wrong stands beside its other tests:
unpicklable variables and a payload over the limit in `tests/jupyter/test_gangs.py`, the same amounts behind `%gpu` in
`tests/jupyter/test_gpu_magic.py`; a full disk for logs in `tests/process/test_supervisor.py` (on a real small disk)
and `tests/unit/store/test_logs.py`.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.processes import KAI, World, until

pytestmark = pytest.mark.process

SERVE = (*KAI, "serve", "--simulate-gpus", "2x24GiB")
QUEUES = """queues:
  research:
    gpu: {quota: 2}
  vision:
    parent: research
    gpu: {quota: 1, limit: 1}
  language:
    parent: research
    gpu: {quota: 1}
"""
LANGUAGE = ("--queue", "language")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with a tree of queues, which every refusal leaves as it was."""
    made = World(tmp_path_factory.mktemp("bad-input") / "state")
    queues = made.state.parent / "queues.yaml"
    queues.write_text(QUEUES)
    made.serve(*SERVE, "--queues", str(queues))
    yield made
    made.end()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[World]:
    """A state folder without a service."""
    made = World(tmp_path / "state")
    yield made
    made.end()


def groups(world: World) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(world.kai("status", "--json").stdout)["groups"]
    return found


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (("--gpu=0",), ["0"]),
        (("--gpu=-0.5",), ["-0.5"]),
        (("--gpu=nan",), ["nan"]),
        (("--gpu=1.5",), ["1.5", "2"]),
        (("--gpu=half",), ["half", "0.5"]),
        (("--gpu-memory=80GiB",), ["80 GiB", "24 GiB"]),
        (("--gpu=0.5", "--gpu-memory=8GiB"), ["memory"]),
        (("--gpu=0.5", "--queue", "nowhere"), ["nowhere"]),
        (("--gpu=0.5", "--queue", "research"), ["research", "vision"]),
        (("--gpu=1", "-n", "9"), ["9", "2"]),
        (("--gpu=0.5", "-n", "0"), ["0"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_request_that_cannot_be_is_refused_in_a_sentence(
    world: World, asked: tuple[str, ...], parts: list[str]
) -> None:
    queue = () if "--queue" in asked else LANGUAGE
    answer = world.kai("submit", "-d", *asked, *queue, "--", "true")

    assert answer.returncode == 3, answer.stderr
    assert "Traceback" not in answer.stderr
    for part in parts:
        assert part in answer.stderr
    assert answer.stderr.rstrip().endswith((".", "?"))
    assert groups(world) == []


def test_more_than_the_limit_is_refused_with_the_arithmetic(world: World) -> None:
    answer = world.kai("submit", "-d", "--gpu=2", "--queue", "vision", "--", "true")

    assert answer.returncode == 3
    assert "vision" in answer.stderr
    assert "1" in answer.stderr
    assert "2" in answer.stderr
    assert groups(world) == []


def test_a_request_that_nobody_knows(world: World) -> None:
    answer = world.kai("logs", "nobody")

    assert answer.returncode == 4
    assert "There is no request" in answer.stderr
    assert "nobody" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_more_than_is_free_waits_and_the_same_key_asks_once(empty: World) -> None:
    empty.serve(*SERVE)
    empty.kai("submit", "-d", "--gpu=2", "--name", "all", "--", "sleep", "600")
    made = [
        empty.kai("submit", "-d", "--json", "--gpu=1", "--key", "same", "--", "true")
        for _ in range(2)
    ]

    views = [json.loads(answer.stdout) for answer in made]
    assert views[0]["name"] == views[1]["name"]
    assert [group["state"] for group in groups(empty)].count("Waiting") == 1
    empty.kai("cancel", "all", views[0]["name"])
    until(lambda: all(group["state"] == "Cancelled" for group in groups(empty)), "all have ended")


def test_a_command_that_does_not_exist_fails_with_its_name(empty: World) -> None:
    empty.serve(*SERVE)
    command = f"/a/path/{'that/is/long/' * 6}no-such-command"
    answer = empty.kai("submit", "--gpu=0.5", "--", command)

    assert answer.returncode == 1
    assert f"'{command}' does not exist" in answer.stderr
    assert "…" not in answer.stderr  # a card has little room, a terminal has enough
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("queues:\n  vision:\n    gpu: {quota: several}\n", "3", "quota"),
        ("queues:\n  vision:\n    gqu: 1\n", "3", "gqu"),
        ("queues:\n  vision:\n    parent: nowhere\n", "3", "parent"),
        ("queues: [\n", "", "queues.yaml"),
    ],
)
def test_a_malformed_queue_file_is_told_with_line_and_field(
    empty: World, tmp_path: Path, text: str, line: str, field: str
) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(text)
    answer = empty.kai("serve", "--no-start-runner", "--queues", str(queues))

    assert answer.returncode == 2
    assert "queues.yaml" in answer.stderr
    assert line in answer.stderr
    assert field in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_port_that_is_in_use(empty: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        answer = empty.kai("serve", "--no-start-runner", "--port", port)

    assert answer.returncode == 2
    assert port in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_corrupt_state_file_is_moved_aside_and_told(empty: World) -> None:
    """The disk lied: the file of the truth is noise."""
    first = empty.serve(*SERVE, "--no-start-runner")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    state = empty.state / "kai.db"
    assert state.exists()
    for beside in empty.state.glob("kai.db-*"):
        beside.unlink()
    state.write_bytes(b"this is no database" * 1000)

    second = empty.serve(*SERVE, "--no-start-runner")
    status = empty.kai("status")
    (aside,) = empty.state.glob("kai.db.damaged-*")

    assert status.returncode == 0
    assert aside.read_bytes().startswith(b"this is no database")
    assert aside.name in "".join(status.stdout.split())
    second.send_signal(signal.SIGTERM)
    _, told = second.communicate(timeout=60)
    assert "Traceback" not in told


def test_a_state_folder_that_can_not_be_used(empty: World) -> None:
    """A file stands where the folder should be: true for root, too."""
    empty.state.parent.mkdir(exist_ok=True)
    empty.state.write_text("")
    answer = empty.kai("submit", "--gpu", "0.5", "--", "true")

    assert answer.returncode == 2
    assert str(empty.state) in answer.stderr
    assert "KAI_STATE_DIR" in answer.stderr
    assert "Traceback" not in answer.stderr
