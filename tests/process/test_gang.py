from __future__ import annotations

import os
import socket
import sys

import pytest

from scheduler_service.runner.environment import LOOPBACK
from tests.process.conftest import RunnerWorld

pytestmark = pytest.mark.process

RENDEZVOUS = """
import os, socket
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
hosts = [h.rpartition(":") for h in os.environ["KAI_GANG_HOSTS"].split(",")]
assert len(hosts) == world and os.environ["LOCAL_RANK"] == str(rank)
mine = socket.create_server((hosts[rank][0], int(hosts[rank][2])))
if rank == 0:
    master = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    peers = [master.accept()[0] for _ in range(world - 1)]
    total = sum(int(p.makefile().readline()) for p in peers)
    for p in peers:
        p.sendall(b"%d\\n" % total)
else:
    while True:
        try:
            link = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            break
        except ConnectionRefusedError:
            pass
    link.sendall(b"%d\\n" % rank)
    total = int(link.makefile().readline())
print("sum", total)
"""


def test_four_workers_meet(world: RunnerWorld) -> None:
    """A gang as torchrun would start it: each finds the others, and rank 0 adds up their ranks."""
    world.start_runner()
    gang = world.gang("g", 4, sys.executable, "-c", RENDEZVOUS)
    world.service.grant(*gang)
    for order in gang:
        assert world.service.wait_ended(order.incarnation).exit_code == 0
        assert world.service.text_of(order.incarnation) == ["sum 6"]
    assert world.remains() == []


def test_if_one_worker_can_not_start_none_does(world: RunnerWorld) -> None:
    world.start_runner()
    gang = world.gang("g", 3, "sleep", "1000")
    gang[1] = world.order("g-1", "no-such-program", group="g", kind="gang", rank=1, workers=3)
    world.service.grant(*gang)
    reports = [world.service.wait_ended(order.incarnation) for order in gang]
    codes = [report.reason_code for report in reports]
    assert codes == ["gang_not_started", "command_not_found", "gang_not_started"]
    assert "Worker 1 could not start: The command 'no-such-program'" in reports[0].reason_text
    assert world.service.started == {}
    assert world.remains() == []


CLASHES_ONCE = """
import errno, os, pathlib, sys
rank = os.environ["RANK"]
print("ports", os.environ["MASTER_PORT"], flush=True)
try:
    pathlib.Path("first-" + rank).touch(exist_ok=False)
except FileExistsError:
    sys.exit(0)
if rank == "1":
    while not pathlib.Path("first-0").exists():
        pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
import time; time.sleep(1000)
"""


def test_a_taken_port_starts_the_gang_once_more_on_other_ports(world: RunnerWorld) -> None:
    """Another program took a port between its release and the worker's bind."""
    world.start_runner()
    gang = world.gang("g", 2, sys.executable, "-c", CLASHES_ONCE)
    world.service.grant(*gang)
    for order in gang:
        assert world.service.wait_ended(order.incarnation).exit_code == 0
    told = [text for text in world.service.text_of("g-0") if text.startswith("ports")]
    assert len(set(told)) == 2
    notes = [text for text in world.service.text_of("g-0") if text.startswith("kai:")]
    assert notes == [
        "kai: a port was taken by another process; the gang starts again on other ports."
    ]


def test_a_gang_of_which_one_is_over_does_not_start_again(world: RunnerWorld) -> None:
    """Its end was told, perhaps with a result: to begin that worker a second time would be a fault."""
    world.start_runner()
    os.mkfifo(world.workdir / "go")
    script = (
        "echo $RANK >> begun; [ $RANK = 0 ] && exit 0; read x < go;"
        " echo 'Address already in use' >&2; exit 1"
    )
    gang = world.gang("g", 2, "sh", "-c", script)
    world.service.grant(*gang)
    assert world.service.wait_ended("g-0").exit_code == 0
    (world.workdir / "go").write_text("x\n")
    ended = world.service.wait_ended("g-1")
    assert (ended.exit_code, ended.reason_code) == (1, None)
    assert sorted((world.workdir / "begun").read_text().split()) == ["0", "1"]


def test_a_port_that_stays_taken_is_told(world: RunnerWorld) -> None:
    """The program insists on a port of its own choice that is in use."""
    world.start_runner()
    with socket.create_server((LOOPBACK, 0)) as taken:
        script = f"import socket; socket.create_server(('{LOOPBACK}', {taken.getsockname()[1]}))"
        gang = world.gang("g", 2, sys.executable, "-c", script)
        world.service.grant(*gang)
        for order in gang:
            ended = world.service.wait_ended(order.incarnation)
            assert (ended.exit_code, ended.reason_code) == (1, "port_clash")
            assert "twice" in ended.reason_text


def test_a_gang_is_adopted_whole(world: RunnerWorld) -> None:
    world.start_runner()
    gang = world.gang("g", 3, "sh", "-c", "echo up $MASTER_PORT; exec sleep 1000")
    world.service.grant(*gang)
    for order in gang:
        world.service.wait_line(order.incarnation, "up")
    world.kill_runner()
    world.start_runner()
    names = {order.incarnation for order in gang}
    world.service.wait_for(
        "adoption", lambda: {pod.incarnation for pod in world.service.claims[-1].held} == names
    )
    for order in gang:
        world.service.stop(order.incarnation)
    for order in gang:
        assert world.service.wait_ended(order.incarnation).signal == "SIGTERM"
    assert world.remains() == []


def test_a_worker_that_joins_later_is_told_its_gangs_ports(world: RunnerWorld) -> None:
    """An elastic gang starts with two workers; the third gets room later, after the runner was killed once."""
    world.start_runner()
    gang = world.gang("g", 3, "sh", "-c", "echo up $MASTER_PORT $KAI_GANG_HOSTS; exec sleep 1000")
    world.service.grant(*gang[:2])
    first = world.service.wait_line("g-0", "up").text
    assert world.service.wait_line("g-1", "up").text == first
    world.kill_runner()
    world.start_runner()
    world.service.grant(gang[2])
    assert world.service.wait_line("g-2", "up").text == first
    for order in gang:
        world.service.stop(order.incarnation)
    for order in gang:
        world.service.wait_ended(order.incarnation)
    assert world.remains() == []
