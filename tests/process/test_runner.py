from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace

import pytest

from scheduler_service.runner import files
from scheduler_service.wire.pod_group import DeviceShare, Work
from scheduler_service.wire.runner import ProofAnswer, ProofRequest
from tests.process.conftest import RunnerWorld, wait_until

pytestmark = pytest.mark.process

FOREVER = ("sh", "-c", "echo up; exec sleep 1000")
SIMULATED = DeviceShare(
    id="GPU-sim-0",
    index=0,
    model="simulated GPU",
    memory_mib=24576,
    milli=500,
    share_mib=12288,
    simulated=True,
)


def test_a_command_runs_and_its_output_and_exit_code_come_back(world: RunnerWorld) -> None:
    """Somebody submits a script that fails with a code of its own."""
    world.start_runner()
    world.service.grant(
        world.order("a", "sh", "-c", "echo one; echo two >&2; printf three; exit 7")
    )
    ended = world.service.wait_ended("a")
    assert (ended.exit_code, ended.signal, ended.reason_code) == (7, None, None)
    assert world.service.started["a"].pid == ended.pid
    assert sorted(world.service.text_of("a", "stdout")) == ["one", "three"]
    assert world.service.text_of("a", "stderr") == ["two"]
    wait_until("the folder to go", lambda: not world.folder("a").exists())


def test_the_share_is_in_the_environment(world: RunnerWorld) -> None:
    world.start_runner()
    order = world.order(
        "a", "env", devices=(SIMULATED,), fraction_milli=500, share_mib=12288, cpu_milli=1500
    )
    world.service.grant(order)
    world.service.wait_ended("a")
    told = dict(line.split("=", 1) for line in world.service.text_of("a") if "=" in line)
    assert told["CUDA_VISIBLE_DEVICES"] == ""
    assert told["KAI_GPU_DEVICES"] == "GPU-sim-0"
    assert (told["KAI_GPU_FRACTION"], told["KAI_GPU_MEMORY_MIB"]) == ("0.5", "12288")
    assert told["OMP_NUM_THREADS"] == "1"
    assert "token-a" not in "".join(told.values()), "the pod's token is the runner's alone"


@pytest.mark.parametrize(
    ("command", "code", "exit_code", "says"),
    [
        (
            ("no-such-program", "x"),
            "command_not_found",
            127,
            "'no-such-program' is not on the PATH",
        ),
        (("/no/such/program",), "command_not_found", 127, "'/no/such/program' does not exist"),
        (("/etc/passwd",), "command_not_executable", 126, "chmod +x"),
    ],
)
def test_what_can_not_be_started_is_told_in_a_sentence(
    world: RunnerWorld, command: tuple[str, ...], code: str, exit_code: int, says: str
) -> None:
    world.start_runner()
    world.service.grant(world.order("a", *command))
    ended = world.service.wait_ended("a")
    assert (ended.reason_code, ended.exit_code) == (code, exit_code)
    assert says in ended.reason_text
    assert "a" not in world.service.started


def test_a_missing_folder_is_told(world: RunnerWorld) -> None:
    world.start_runner()
    order = world.order("a", "true")
    assert order.work is not None
    moved = replace(order, work=replace(order.work, workdir="/no/such/folder"))
    world.service.grant(world.sign(moved))
    ended = world.service.wait_ended("a")
    assert ended.reason_code == "workdir_missing"
    assert "/no/such/folder" in ended.reason_text


def test_unsigned_and_foreign_work_is_refused(world: RunnerWorld) -> None:
    """The service, or who took it over, asks the runner to run what its person never signed."""
    world.start_runner()
    proof = world.workdir / "ran"
    unsigned = replace(world.order("unsigned", "touch", str(proof)), signature=None)
    foreign = replace(world.order("foreign", "touch", str(proof)), signature="0" * 64)
    signed = world.order("changed", "true")
    assert signed.work is not None
    changed = replace(signed, work=replace(signed.work, command=("touch", str(proof))))
    for order in (unsigned, foreign, changed):
        world.service.grant(order)
    for order in (unsigned, foreign, changed):
        assert world.service.wait_ended(order.incarnation).reason_code == "unsigned"
    assert not proof.exists()


def test_an_id_that_leaves_the_folder_is_refused(world: RunnerWorld) -> None:
    world.start_runner()
    world.service.grant(world.order("../../evil", "true"))
    assert world.service.wait_ended("../../evil").reason_code == "bad_order"


def test_grace_then_the_whole_tree_is_killed(world: RunnerWorld) -> None:
    """A program ignores SIGTERM, and left children in sessions of their own."""
    world.start_runner()
    script = (
        "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000\" & "
        "(setsid nohup sleep 1001 >/dev/null 2>&1 &) ; echo up; while :; do sleep 1; done"
    )
    world.service.grant(world.order("a", "sh", "-c", script))
    world.service.wait_line("a", "up")
    world.service.stop("a", grace_s=1, reason="cancelled by ada")
    ended = world.service.wait_ended("a")
    assert (ended.signal, ended.reason_code) == ("SIGKILL", "stopped")
    assert ended.reason_text == "cancelled by ada"
    assert world.remains() == []


def test_a_program_that_obeys_ends_by_itself(world: RunnerWorld) -> None:
    world.start_runner()
    script = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    world.service.grant(world.order("a", "sh", "-c", script))
    world.service.wait_line("a", "up")
    world.service.stop("a", grace_s=600)
    ended = world.service.wait_ended("a")
    assert (ended.exit_code, ended.reason_code) == (0, "stopped")
    assert "saved" in world.service.text_of("a")
    assert world.remains() == []


def test_what_a_program_leaves_behind_is_ended(world: RunnerWorld) -> None:
    """A script starts a server in the background and returns."""
    world.start_runner()
    world.service.grant(
        world.order("a", "sh", "-c", "(setsid sleep 1000 &); (sleep 1001 &); exit 0")
    )
    assert world.service.wait_ended("a").exit_code == 0
    assert world.remains() == []


def test_a_runner_killed_while_pods_run_is_followed_by_one_that_adopts_them(
    world: RunnerWorld,
) -> None:
    world.start_runner()
    fifo = world.workdir / "go"
    os.mkfifo(fifo)
    world.service.grant(
        world.order("waits", "sh", "-c", "echo before; read x < go; echo after; exit 5")
    )
    world.service.grant(world.order("runs", *FOREVER))
    world.service.wait_line("waits", "before")
    world.service.wait_line("runs", "up")
    world.kill_runner()
    fifo.write_text("x\n")
    wait_until("its end on disk", (world.folder("waits") / files.EXIT).exists)
    world.start_runner()
    ended = world.service.wait_ended("waits")
    assert ended.exit_code == 5
    assert world.service.text_of("waits") == ["before", "after"]
    held = {pod.incarnation: pod.pid for pod in world.service.claims[-1].held}
    assert held["runs"] == world.service.started["runs"].pid
    world.service.stop("runs", grace_s=15)
    assert world.service.wait_ended("runs").signal == "SIGTERM"
    assert world.remains() == []


def _wait_for_moment(world: RunnerWorld, pod: str, number: int) -> None:
    """Wait for one of the moments between two things that a runner does with a pod, or for its end."""
    moments = [
        lambda: world.service.claims,
        (world.folder(pod) / files.ORDER).exists,
        (world.folder(pod) / files.SUPERVISOR).exists,
        lambda: world.service.started.get(pod),
        (world.folder(pod) / files.EXIT).exists,
        lambda: world.service.ended.get(pod),
    ]
    wait_until("the moment", lambda: moments[number]() or world.service.ended.get(pod))


@pytest.mark.slow
def test_a_runner_killed_at_any_moment_loses_and_doubles_nothing(world: RunnerWorld) -> None:
    """Each pod writes its line when it begins; kills come between any two things that a runner does."""
    script = "echo begin >> begun-$KAI_POD_GROUP; sleep 0.3; echo done"
    for round_number in range(6):
        world.start_runner()
        names = [f"r{round_number}-{n}" for n in range(3)]
        for name in names:
            world.service.grant(world.order(name, "sh", "-c", script))
        _wait_for_moment(world, names[round_number % 3], round_number)
        world.kill_runner()
    world.start_runner()
    for round_number in range(6):
        for n in range(3):
            name = f"r{round_number}-{n}"
            assert world.service.wait_ended(name).exit_code == 0
            assert world.service.text_of(name) == ["done"]
    assert world.remains() == []


def test_a_supervisor_that_is_killed_takes_its_pod_along(world: RunnerWorld) -> None:
    world.start_runner()
    world.service.grant(
        world.order("a", "sh", "-c", "(setsid sleep 1000 &); echo up; exec sleep 1001")
    )
    world.service.wait_line("a", "up")
    supervisor = json.loads((world.folder("a") / files.SUPERVISOR).read_text())
    os.kill(supervisor["pid"], signal.SIGKILL)
    ended = world.service.wait_ended("a")
    assert ended.reason_code == "supervisor_lost"
    assert "supervisor was killed" in ended.reason_text
    assert world.remains() == []


def test_pods_whose_runner_does_not_come_back_are_ended(world: RunnerWorld) -> None:
    world.lost_after_s = 1.0
    world.start_runner()
    world.service.grant(world.order("a", *FOREVER))
    world.service.wait_line("a", "up")
    world.kill_runner()
    wait_until("its end on disk", (world.folder("a") / files.EXIT).exists)
    assert world.remains() == []
    world.start_runner()
    ended = world.service.wait_ended("a")
    assert ended.reason_code == "runner_lost", ended


def test_a_service_that_comes_back_elsewhere_is_found(world: RunnerWorld) -> None:
    """The embedded service was killed and started again: another port, the same state directory."""
    world.start_runner()
    world.service.grant(world.order("a", *FOREVER))
    world.service.wait_line("a", "up")
    world.move_service()
    world.service.grant(world.order("b", "echo", "hello"))
    assert world.service.wait_ended("b").exit_code == 0
    assert [pod.incarnation for pod in world.service.claims[-1].held] == ["a"]
    world.service.stop("a")
    world.service.wait_ended("a")


def test_pods_that_the_books_do_not_know_are_ended(world: RunnerWorld) -> None:
    """The service lost its state file and began a new one."""
    world.start_runner()
    world.service.grant(world.order("a", *FOREVER))
    world.service.wait_line("a", "up")
    world.kill_runner()
    world.service.orders.clear()
    world.start_runner()
    wait_until("its processes to go", lambda: not world.remains())
    wait_until("its folder to go", lambda: not world.folder("a").exists())
    assert (world.state / "kept" / world.name("a") / "order.json").exists()


def test_a_service_that_lost_its_books_is_shown_the_seals_of_the_whole_group(
    world: RunnerWorld,
) -> None:
    """Before an end is told, too: it would be refused."""
    orders = [
        replace(order, seal=f"seal-{order.rank}")
        for order in world.gang("g", 2, "sh", "-c", "echo up; sleep 1000")
    ]
    world.start_runner()
    world.service.grant(*orders)
    for order in orders:
        world.service.wait_line(order.incarnation, "up")
    world.kill_runner()
    world.service.orders.clear()

    def know_again(ask: ProofRequest) -> ProofAnswer:
        world.service.orders |= {order.incarnation: order for order in orders}
        return ProofAnswer()

    world.service.prove_answer = know_again  # type: ignore[method-assign]
    world.start_runner()
    (ask, *_) = world.service.wait_for("proofs", lambda: list(world.service.proofs))
    assert {(proof.pod, proof.seal) for proof in ask.pods} == {
        ("ada/g-0-0", "seal-0"),
        ("ada/g-1-0", "seal-1"),
    }
    world.service.wait_for("beats", lambda: len(world.service.beats) == len(orders))
    assert len(world.remains()) >= len(orders)
    for order in orders:
        world.service.stop(order.incarnation, grace_s=1)
        world.service.wait_ended(order.incarnation)
    assert not (world.state / "kept").exists()


def test_to_an_older_service_nothing_is_proven(world: RunnerWorld) -> None:
    def refuse(_ask: ProofRequest) -> ProofAnswer | None:
        return None

    world.service.prove_answer = refuse  # type: ignore[method-assign,assignment]
    world.start_runner()
    world.service.grant(world.order("a", "sh", "-c", "echo up; sleep 1000"))
    world.service.wait_line("a", "up")
    world.kill_runner()
    world.service.orders.clear()
    world.start_runner()
    wait_until("the end of the pod", lambda: world.remains() == [])
    wait_until("its folder to go", lambda: not world.folder("a").exists())


def test_a_runner_that_is_sent_away_leaves_its_pods_alone(world: RunnerWorld) -> None:
    runner = world.start_runner()
    world.service.grant(world.order("a", *FOREVER))
    world.service.wait_line("a", "up")
    world.service.sends_away = True
    assert runner.wait(90) == 0
    assert world.remains()
    world.service.sends_away = False
    world.start_runner()
    world.service.stop("a")
    assert world.service.wait_ended("a").signal == "SIGTERM"


def test_a_second_runner_is_told_that_there_is_one(world: RunnerWorld) -> None:
    world.start_runner()
    world.service.wait_for("a claim", lambda: world.service.claims)
    first, world.runner = world.runner, None
    second = world.start_runner()
    assert second.wait(90) != 0
    assert "A runner already works in" in (world.state / "runner.out").read_text()
    world.runner = first


def test_a_payload_comes_down_and_its_result_goes_up(world: RunnerWorld) -> None:
    """The worker itself is tested elsewhere; here a stand-in shows what the runner gives it and takes from it."""
    import hashlib

    world.start_runner()
    body = b"cell"
    interpreter = world.workdir / "python"
    interpreter.write_text(
        "#!/bin/sh\n"
        'cd "$3" && test "$KAI_PROGRESS_FILE" = "$3/progress.json" && test -r "$KAI_SIGNING_KEY_FILE"\n'
        "cat payload payload > result; printf SIGNED > result.sig\n"
        'echo \'[{"name": "loss", "text": "0.5", "size": 4}]\' > results.json\n'
        'echo \'{"step": 3, "total": 9, "metrics": {"loss": 0.5}}\' > progress.json\n'
        f"read x < {world.workdir}/go\n"
    )
    interpreter.chmod(0o700)
    order = world.order("a")
    work = Work(
        payload_sha256=hashlib.sha256(body).hexdigest(),
        python=str(interpreter),
        workdir=str(world.workdir),
        env={"KAI_TEST_MARK": world.mark},
    )
    world.service.payloads["a"] = body
    os.mkfifo(world.workdir / "go")
    world.service.grant(world.sign(replace(order, work=work)))
    beat = world.service.wait_for(
        "progress", lambda: (b := world.service.beats.get("a")) and b.progress and b
    )
    assert (beat.progress.step, beat.progress.total, beat.holds_device) == (3, 9, False)
    (world.workdir / "go").write_text("x\n")
    ended = world.service.wait_ended("a")
    assert [item.name for item in ended.results] == ["loss"]
    assert world.service.results["a"] == (b"cellcell", "SIGNED")


def test_a_payload_that_was_changed_on_its_way_is_refused(world: RunnerWorld) -> None:
    world.start_runner()
    work = Work(payload_sha256="0" * 64, workdir=str(world.workdir))
    world.service.payloads["a"] = b"other"
    world.service.grant(world.sign(replace(world.order("a"), work=work)))
    assert world.service.wait_ended("a").reason_code == "unsigned"


def test_a_cpu_amount_keeps_the_pod_on_that_many_cpus(world: RunnerWorld) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: nothing to stay on")
    world.start_runner()
    script = "import os; print(len(os.sched_getaffinity(0)))"
    world.service.grant(world.order("a", sys.executable, "-c", script, cpu_milli=1000))
    world.service.wait_ended("a")
    assert world.service.text_of("a") == ["1"]


def test_a_memory_amount_bounds_each_process(world: RunnerWorld) -> None:
    world.start_runner()
    script = "b = bytearray(512 << 20)"
    world.service.grant(world.order("a", sys.executable, "-c", script, memory_bytes=256 << 20))
    assert world.service.wait_ended("a").exit_code == 1
    assert "MemoryError" in world.service.text_of("a", "stderr")
