"""The service is killed and its state file made noise while work runs: the work goes on, or its end is told by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from kai_jupyter.client import KaiRequestError, ServiceUnreachable
from scheduler_service.runner import processes
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import PodGroupView, Submit, Work
from scheduler_service.wire.signing import load_or_create_key, sign_work
from tests.fakes.processes import FAIL_SAFE_S, World, until
from tests.kill.conftest import all_over, client, diary_of, runners_of, serve

pytestmark = [pytest.mark.process, pytest.mark.slow]

POD = """
import json, os, sys
out = open(sys.argv[1], "a", buffering=1)
me = {name: os.environ[name] for name in ("KAI_POD", "KAI_GPU_DEVICES")}
out.write(json.dumps({"what": "begin", "pid": os.getpid(), **me}) + "\\n")
print("working", flush=True)
open(sys.argv[2] + me["KAI_POD"]).read()
print("done", flush=True)
out.write(json.dumps({"what": "end", **me}) + "\\n")
"""
"""Works until somebody opens its pipe for writing."""


def submit(world: World, name: str, workers: int) -> PodGroupView:
    folder = world.state.parent
    for rank in range(workers):
        os.mkfifo(folder / f"go-{name}-{rank}")
    work = Work(
        command=(sys.executable, "-S", "-c", POD, str(folder / "diary"), str(folder / "go-"))
    )
    ask = Submit(
        kind="gang" if workers > 1 else "batch",
        name=name,
        gpu="1",
        workers=workers,
        preemptible=False,
        work=work,
        signature=sign_work(load_or_create_key(world.state / "signing.key"), work),
    )
    with client(world) as kai:
        return kai.submit(ask)


def let_go(world: World, *pods: str) -> None:
    for pod in pods:
        (world.state.parent / f"go-{pod}").write_text("go")


def look(world: World, name: str) -> PodGroupView | None:
    try:
        with client(world) as kai:
            return next((view for view in kai.groups().items if view.name == name), None)
    except (ServiceUnreachable, KaiRequestError, OSError):
        return None


def until_state(world: World, name: str, state: str) -> PodGroupView:
    seen: list[PodGroupView] = []

    def is_so() -> bool:
        view = look(world, name)
        seen[:] = [view] if view is not None and view.state == state else []
        return bool(seen)

    until(is_so, f"{name} is {state}")
    return seen[0]


def notes(world: World) -> str:
    with client(world) as kai:
        return "\n".join(kai.health().notes)


def damage(world: World, service: subprocess.Popen[str], *, with_runner: bool) -> None:
    service.kill()
    service.wait(FAIL_SAFE_S)
    if with_runner:
        for runner in runners_of(world.state):
            os.kill(runner, signal.SIGKILL)
            until(lambda pid=runner: locate.start_ticks(pid) is None, "the end of the runner")
    for suffix in ("-wal", "-shm"):
        (world.state / f"kai.db{suffix}").unlink(missing_ok=True)
    (world.state / "kai.db").write_bytes(b"garbage " * 4096)


@pytest.mark.parametrize("with_runner", [False, True])
def test_what_runs_goes_on_and_is_counted(world: World, with_runner: bool) -> None:
    service = serve(world)
    submit(world, "g", 2)
    before = until_state(world, "g", "Running")
    diary = world.state.parent / "diary"
    until(lambda: len(diary_of(diary)) == 2, "both workers")
    damage(world, service, with_runner=with_runner)

    serve(world)
    submit(world, "new", 2)
    after = until_state(world, "g", "Running")
    assert [(p.incarnation, p.devices) for p in after.pods] == [
        (p.incarnation, p.devices) for p in before.pods
    ]
    told = notes(world)
    assert "The state file was damaged; it was moved to" in told
    assert f"1 running request was found again and goes on: {after.namespace}/g." in told
    assert world.kai("status").stdout.count("g ") >= 1
    until(lambda: "Nothing new starts before" not in notes(world), "the end of the hold")
    assert (look(world, "new") or after).state == "Waiting"
    assert all(locate.start_ticks(line["pid"]) for line in diary_of(diary))

    let_go(world, "g-0", "g-1")
    until_state(world, "g", "Succeeded")
    until_state(world, "new", "Running")
    let_go(world, "new-0", "new-1")
    until(lambda: all_over(world), "the end of all work")
    with client(world) as kai:
        lines = Counter((line.rank, line.text) for line in kai.logs(after.namespace, "g").lines)
    assert lines == {(rank, text): 1 for rank in (0, 1) for text in ("working", "done")}
    said = Counter((line["KAI_POD"], line["what"]) for line in diary_of(diary))
    assert set(said.values()) == {1}
    assert len(said) == 8


def test_what_was_found_again_can_be_stopped(world: World) -> None:
    service = serve(world)
    submit(world, "g", 2)
    until_state(world, "g", "Running")
    damage(world, service, with_runner=False)
    serve(world)
    until_state(world, "g", "Running")
    stopped = world.kai("cancel", "g")
    assert stopped.returncode == 0, stopped.stderr
    until_state(world, "g", "Cancelled")
    assert [end for end in diary_of(world.state.parent / "diary") if end["what"] == "end"] == []


def test_an_end_while_no_service_was_there_is_not_lost(world: World) -> None:
    service = serve(world)
    submit(world, "g", 1)
    until_state(world, "g", "Running")
    damage(world, service, with_runner=False)
    let_go(world, "g-0")
    diary = world.state.parent / "diary"
    until(lambda: len(diary_of(diary)) == 2, "the end of the worker")
    serve(world)
    view = until_state(world, "g", "Succeeded")
    with client(world) as kai:
        lines = [line.text for line in kai.logs(view.namespace, "g").lines]
    assert lines == ["working", "done"]


@pytest.mark.parametrize("how", ["seal", "order"])
def test_what_can_not_be_proven_is_ended_and_told_and_its_folder_kept(
    world: World, how: str
) -> None:
    service = serve(world)
    submit(world, "bad", 1)
    view = until_state(world, "bad", "Running")
    submit(world, "good", 1)
    until_state(world, "good", "Running")
    incarnation = view.pods[0].incarnation or ""
    damage(world, service, with_runner=True)  # else the runner has the order in its memory
    path = world.state / "pods" / incarnation / "order.json"
    order = json.loads(path.read_text())
    order["seal"] = order["seal"].replace('"priority":50', '"priority":99')
    path.write_text(json.dumps(order) if how == "seal" else "{")

    serve(world)
    until_state(world, "good", "Running")
    kept = world.state / "kept" / incarnation
    until(kept.exists, "the folder that is kept")
    name = f"{view.namespace}/bad-0" if how == "seal" else incarnation
    until(lambda: "1 pod that ran was ended" in notes(world), "the note of what was ended")
    assert name in notes(world)
    assert look(world, "bad") is None
    assert "working" in "".join(p.read_text() for p in kept.glob("log-*.txt"))
    assert processes.marked("KAI_INCARNATION", incarnation) == []
    let_go(world, "good-0")
    until_state(world, "good", "Succeeded")
