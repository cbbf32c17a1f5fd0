"""kill -9 of the service (and of its runner) at random moments under load: nothing is lost, nothing is doubled.

Each pod writes down by itself when it held which devices; the test adds these up, whatever the service believed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from kai_jupyter.client import KaiRequestError, ServiceUnreachable
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import PodGroupView, Submit, Work
from scheduler_service.wire.signing import load_or_create_key, sign_work
from tests.fakes.processes import World, until
from tests.kill.conftest import POD, all_over, client, diary_of, runners_of, serve, told_twice

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROUNDS = int(os.environ.get("KAI_KILL_ROUNDS", "5"))
GROUPS = 24


class Load:
    """Submits work from another thread and goes on through every outage; knows what was answered."""

    def __init__(self, world: World, diary: Path, dice: random.Random) -> None:
        self._world = world
        self._diary = diary
        self._dice = dice
        self._key = load_or_create_key(world.state / "signing.key")
        self.answered: dict[str, str] = {}
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        for number in range(GROUPS):
            self._submit(f"work-{number}")
            time.sleep(self._dice.uniform(0, 0.15))

    def _submit(self, key: str) -> None:
        is_gang = self._dice.random() < 0.3
        seconds = f"{self._dice.uniform(0.05, 0.8):.2f}"
        work = Work(command=(sys.executable, "-S", "-c", POD, str(self._diary), seconds))
        ask = Submit(
            kind="gang" if is_gang else "batch",
            name=key,
            gpu=self._dice.choice(["0.25", "0.5", "1"]),
            workers=self._dice.choice([2, 3]) if is_gang else 1,
            preemptible=False,  # else a pod may be moved to make room, and rightly begins again
            work=work,
            signature=sign_work(self._key, work),
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with client(self._world) as kai:
                    self.answered[key] = kai.submit(ask, idempotency_key=key).name
            except (ServiceUnreachable, KaiRequestError, OSError):
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"{key} was never answered")


def most_held(diary: list[dict[str, Any]]) -> dict[str, float]:
    """Return the most that was ever held of each device at a time, by the pods' own words."""
    steps = []
    for line in diary:
        part = float(line["KAI_GPU_FRACTION"] or 1) or 1.0
        for device in str(line["KAI_GPU_DEVICES"]).split(","):
            sign = part if line["what"] == "begin" else -part
            steps.append((float(line["at"]), sign, device))
    held: dict[str, float] = defaultdict(float)
    most: dict[str, float] = defaultdict(float)
    for _, part, device in sorted(steps):
        held[device] += part
        most[device] = max(most[device], held[device])
    return most


def what_is_known(
    world: World, diary: list[dict[str, Any]], views: list[PodGroupView], pods: list[str]
) -> str:
    """Return all that tells how these pods came to begin twice: their own words, the timelines, the runners' log."""
    said = [line for line in diary if line["KAI_POD"] in pods]
    starts = {str(line["KAI_INCARNATION"]) for line in said}
    groups = {pod.rpartition("-")[0] for pod in pods}
    told = [(view.name, view.state, view.timeline) for view in views if view.name in groups]
    log = (world.state / "runner.log").read_text().splitlines()
    words = (*starts, *(f"/{group} " for group in groups), "failed", "Error")
    near = [line for line in log if any(word in line for word in words)]
    return "\n".join(map(str, ["begun twice:", *said, "told:", *told, "runners:", *near]))


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_lost_nothing_twice(world: World, seed: int) -> None:
    dice = random.Random(seed)
    diary_path = world.state.parent / "diary.jsonl"
    pid = serve(world).pid
    load = Load(world, diary_path, random.Random(seed + 1000))
    load.thread.start()
    for number in range(ROUNDS):
        time.sleep(dice.uniform(0.05, 1.5))
        os.kill(pid, signal.SIGKILL)
        if number % 2:
            for runner in runners_of(world.state):
                os.kill(runner, signal.SIGKILL)
        until(lambda pid=pid: locate.start_ticks(pid) is None, "the end of the killed service")
        pid = serve(world).pid
    load.thread.join(timeout=180)
    assert len(load.answered) == GROUPS

    finished: list[PodGroupView] = []
    until(lambda: finished.extend(all_over(world) or []) or finished, "the end of all work")

    assert sorted(view.name for view in finished) == sorted(load.answered.values())
    told = {view.name: (view.state, view.sentence) for view in finished}
    assert {state for state, _ in told.values()} == {"Succeeded"}, told
    diary = diary_of(diary_path)
    begun = Counter(str(line["KAI_POD"]) for line in diary if line["what"] == "begin")
    ended = Counter(str(line["KAI_POD"]) for line in diary if line["what"] == "end")
    expected = {f"{view.name}-{rank}" for view in finished for rank in range(view.workers)}
    assert set(begun) == expected
    assert [view.name for view in finished if told_twice(view)] == [], told
    twice = [pod for pod, times in begun.items() if times > 1]
    assert twice == [], what_is_known(world, diary, finished, twice)
    assert begun == ended
    assert max(most_held(diary).values()) <= 1.0 + 1e-9
