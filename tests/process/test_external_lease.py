"""Leases of processes that the runner did not start: it watches them, and never ends them."""

from __future__ import annotations

import os
import subprocess

import pytest

from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Process
from tests.process.conftest import RunnerWorld

pytestmark = pytest.mark.process


def test_an_external_lease_lives_as_long_as_its_process(world: RunnerWorld) -> None:
    world.start_runner()
    with subprocess.Popen(["sleep", "1000"]) as kernel:
        process = Process(pid=kernel.pid, start_ticks=start_ticks(kernel.pid) or 0)
        world.service.grant(world.order("a", work=None, kind="lease", process=process))
        started = world.service.wait_for("start", lambda: world.service.started.get("a"))
        assert (started.pid, started.start_ticks) == (kernel.pid, process.start_ticks)
        world.kill_runner()
        world.start_runner()
        world.service.wait_for(
            "its adoption",
            lambda: any(c.held and c.held[0].pid == kernel.pid for c in world.service.claims),
        )
        kernel.kill()
        kernel.wait()
        assert world.service.wait_ended("a").reason_code == "process_ended"


def test_an_external_lease_that_is_stopped_leaves_the_process_alone(world: RunnerWorld) -> None:
    world.start_runner()
    with subprocess.Popen(["sleep", "1000"]) as kernel:
        process = Process(pid=kernel.pid, start_ticks=start_ticks(kernel.pid) or 0)
        world.service.grant(world.order("a", work=None, kind="lease", process=process))
        world.service.wait_for("start", lambda: world.service.started.get("a"))
        world.service.stop("a")
        assert world.service.wait_ended("a").reason_code == "released"
        assert kernel.poll() is None
        kernel.kill()


def test_an_external_lease_of_a_reused_pid_ends_at_once(world: RunnerWorld) -> None:
    world.start_runner()
    process = Process(pid=os.getpid(), start_ticks=1)
    world.service.grant(world.order("a", work=None, kind="lease", process=process))
    assert world.service.wait_ended("a").reason_code == "process_ended"
    assert "a" not in world.service.started
