"""`kai serve` as a process: alone, found, ended, started again."""

from __future__ import annotations

import json
import signal
import socket
import stat

import httpx
import pytest

from tests.fakes.processes import KAI, until

pytestmark = pytest.mark.process

SERVE = (*KAI, "serve", "--simulate-gpus", "2x24GiB", "--no-start-runner")


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_found_by_its_lock_file_and_only_its_owner_can_read_the_token(world):
    service = world.serve(*SERVE)
    lock = world.lock()
    assert lock.pid == service.pid
    assert {mode(world.state / name) for name in ("service.json", "token")} == {0o600}
    assert mode(world.state) == 0o700
    token = (world.state / "token").read_text()
    with httpx.Client(base_url=lock.url, trust_env=False) as http:
        health = http.get("/api/v1/health").json()
        assert (health["ready"], health["simulated"]) == (True, True)
        assert http.get("/api/v1/queues").status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert http.get("/api/v1/queues", headers=headers).status_code == 200
        assert "admin" in http.get("/api/v1/me", headers=headers).json()["scopes"]


def test_no_secret_is_on_the_command_line_or_in_what_it_prints(world):
    service = world.serve(*SERVE)
    token = (world.state / "token").read_text()
    world.kai("stop")
    out, err = service.communicate(timeout=60)
    assert token not in out + err


def test_a_second_start_finds_the_first(world):
    """When two notebooks are opened at once."""
    service = world.serve(*SERVE)
    second = world.kai("serve")
    assert second.returncode == 0
    assert world.lock().url in second.stdout
    assert service.poll() is None


def test_a_port_that_is_in_use_is_a_sentence(world):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = world.kai("serve", "--port", str(port), "--no-start-runner")
    assert answer.returncode == 2
    assert f"port {port}" in answer.stderr
    assert "--port 0" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert world.lock() is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "http"], "--port: 'http' is not a whole number. Write one from 0 to 65535."),
        (["--host", "192.0.2.1"], "address '192.0.2.1'"),
        (["--port", "70000"], "70000"),
        (["--simulate-gpus", "many"], "many"),
        (["--queues", "nowhere.yaml"], "nowhere.yaml"),
        (["--state-dir", "/proc/kai"], "/proc/kai"),
        (["--state-dir", "/dev/null"], "/dev/null"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_setting_that_can_not_be_used_is_a_sentence_that_names_it(world, arguments, told):
    answer = world.kai("serve", "--no-start-runner", *arguments)
    assert answer.returncode == 2
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_malformed_queue_file_is_told_with_its_line(world, tmp_path):
    queues = tmp_path / "queues.yaml"
    queues.write_text("queues:\n  vision:\n    quota: {gpu: several}\n")
    answer = world.kai("serve", "--no-start-runner", "--queues", str(queues))
    assert answer.returncode == 2
    assert "queues.yaml" in answer.stderr
    assert "3" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(world, number):
    service = world.serve(*SERVE)
    service.send_signal(number)
    _, told = service.communicate(timeout=60)
    assert service.returncode == 0
    assert "Traceback" not in told
    assert not (world.state / "service.json").exists()


def test_after_a_kill_the_next_start_takes_the_place_and_the_port(world):
    """When the machine's memory ran out: the lock file stays behind, its process does not."""
    first = world.serve(*SERVE)
    url = world.lock().url
    first.kill()
    first.communicate(timeout=60)
    assert (world.state / "service.json").exists()
    assert world.lock() is None
    world.serve(*SERVE)
    assert world.lock().url == url


def test_requests_survive_a_kill(world):
    first = world.serve(*SERVE)
    world.kai("submit", "-d", "--name", "kept", "--gpu", "1", "--", "true")
    first.kill()
    first.communicate(timeout=60)
    world.serve(*SERVE)
    groups = json.loads(world.kai("status", "--json").stdout)["groups"]
    assert [group["name"] for group in groups] == ["kept"]


def test_the_embedded_service_goes_when_nobody_needs_it(world):
    service = world.serve(*SERVE, "--embedded", "--idle-exit-s", "1")
    _, err = service.communicate(timeout=60)
    assert service.returncode == 0
    assert "nobody asked" in err
    assert world.lock() is None


def test_work_runs_to_its_end_with_its_output_here(world):
    """The whole way: signed, granted, started by the runner's supervisor, logged, ended, told."""
    world.serve(*KAI, "serve", "--embedded", "--simulate-gpus", "2x24GiB")
    code = "echo $KAI_GPU_FRACTION; echo oops >&2"
    good = world.kai("submit", "--gpu", "0.5", "--", "sh", "-c", code)
    assert good.returncode == 0, good.stderr
    assert good.stdout == "0.5\n"
    assert "oops" in good.stderr
    bad = world.kai("submit", "--gpu", "0.5", "--", "sh", "-c", "exit 3")
    assert bad.returncode == 1
    missing = world.kai("submit", "--gpu", "0.5", "--", "no-such-command")
    assert missing.returncode == 1
    assert "no-such-command" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_a_gang_starts_together_and_its_lines_carry_the_rank(world):
    world.serve(*KAI, "serve", "--embedded", "--simulate-gpus", "2x24GiB")
    code = "echo rank $RANK of $WORLD_SIZE"
    answer = world.kai("submit", "-n", "4", "--gpu", "0.25", "--", "sh", "-c", code)
    assert answer.returncode == 0, answer.stderr
    lines = sorted(answer.stdout.splitlines())
    assert lines == [f"[{rank}] rank {rank} of 4" for rank in range(4)]


def test_what_runs_outlives_the_service_and_is_found_again(world, tmp_path):
    """When the service is upgraded under running work."""
    go = tmp_path / "go"
    serve = (*KAI, "serve", "--embedded", "--simulate-gpus", "2x24GiB")
    world.serve(*serve)
    code = f"echo before; until [ -e {go} ]; do sleep 0.1; done; echo after"
    world.kai("submit", "-d", "--name", "long", "--gpu", "1", "--", "sh", "-c", code)

    def state() -> str:
        return json.loads(world.kai("status", "long", "--json").stdout)["state"]

    until(lambda: state() == "Running", "the work runs")
    world.kai("stop")
    world.serve(*serve)
    go.touch()
    until(lambda: state() == "Succeeded", "the work's end is booked")
    assert world.kai("logs", "long").stdout == "before\nafter\n"


def test_output_is_followed_through_a_kill_of_the_service(world, tmp_path):
    """When the service is killed and comes back while somebody looks at `kai logs -f`."""
    go = tmp_path / "go"
    serve = (*KAI, "serve", "--embedded", "--simulate-gpus", "2x24GiB")
    first = world.serve(*serve)
    code = f"echo before; until [ -e {go} ]; do sleep 0.1; done; echo after"
    world.kai("submit", "-d", "--name", "long", "--gpu", "1", "--", "sh", "-c", code)
    looking = world.start(*KAI, "logs", "-f", "long")
    assert looking.stdout.readline() == "before\n"
    first.kill()
    first.communicate(timeout=60)
    world.serve(*serve)
    go.touch()
    rest, told = looking.communicate(timeout=60)
    assert (looking.returncode, rest, told) == (0, "after\n", "")


def test_a_forecast_says_what_submit_and_a_notebook_would_get(world):
    """When all GPUs run batch work: more of it waits for an end, a notebook is made room for."""
    world.serve(*SERVE)
    world.kai("submit", "-d", "--gpu", "2", "--", "true")
    told = "others are asked to make room"
    assert told not in world.kai("forecast", "--gpu", "1").stdout
    assert told in world.kai("forecast", "--gpu", "1", "--lease").stdout
    view = json.loads(world.kai("submit", "-d", "--json", "--gpu", "1", "--", "true").stdout)
    assert view["state"] == "Waiting"


def test_a_busy_demo_has_other_people_and_real_work_of_ones_own(world):
    world.serve(*KAI, "serve", "--demo", "busy", "--time-scale", "20")
    until(lambda: held(world) >= 4000, "the made-up people hold GPUs")
    answer = world.kai("submit", "--gpu", "1", "--", "sh", "-c", "echo $KAI_POD_GROUP")
    assert (answer.returncode, answer.stdout) == (0, "batch\n"), answer.stderr
    everybody = json.loads(world.kai("status", "--all", "--json").stdout)["groups"]
    assert {"maya", "mei"} <= {group["owner"] for group in everybody}
    queues = {q["name"]: q for q in json.loads(world.kai("queues", "--json").stdout)}
    assert queues["default"]["may_submit"]


def held(world) -> int:
    (node,) = json.loads(world.kai("nodes", "--json").stdout)
    return node["allocated_milli_gpu"]


def test_a_demo_is_for_one_person(world):
    answer = world.kai("serve", "--demo", "busy", "--backend", "kubernetes")
    assert answer.returncode == 2
    assert "for one person" in answer.stderr
