"""A claim's answer that is older than what the runner told meanwhile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_service.wire import runner
from tests.fakes.runner_service import FakeRunnerService
from tests.process.conftest import RunnerWorld, wait_until

pytestmark = pytest.mark.process


class SlowService(FakeRunnerService):
    """Its second answer was made before it heard of pod `a`, and arrives after `a` is over and forgotten."""

    go: Path
    folder: Path

    def claim(self, ask: runner.ClaimRequest) -> runner.ClaimAnswer:
        answer = super().claim(ask)
        if len(self.claims) != 2:
            return answer
        self.go.write_text("x\n")
        self.wait_ended("a")
        wait_until("its folder to go", lambda: not self.folder.exists())
        return replace(answer, starts=(self.orders["a"], *answer.starts))


def test_what_is_over_is_not_begun_again_by_an_old_answer(world: RunnerWorld) -> None:
    world.service.close()
    world.service = service = SlowService(world.token)
    service.go, service.folder = world.workdir / "go", world.folder("a")
    os.mkfifo(service.go)
    world.port = service.open()
    world.start_runner()
    service.grant(world.order("a", "sh", "-c", "echo a >> begun; echo up; read x < go"))
    service.wait_line("a", "up")
    service.grant(world.order("b", "sh", "-c", "sleep 1; echo b >> begun"))
    assert service.wait_ended("b").exit_code == 0
    assert (world.workdir / "begun").read_text().split() == ["a", "b"]
