"""The entry point of a pod in a cluster, run as a kubelet would, against a real service's routes for pods."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import httpx
import pytest

from scheduler_service.runner.termination import read
from scheduler_service.wire.codec import decode, encode
from scheduler_service.wire.pod_group import Submit, Work
from scheduler_service.wire.runner import ClaimRequest, Report, StartOrder
from scheduler_service.wire.signing import is_signed_result, load_or_create_key, sign_work

ROOT = Path(__file__).parents[2]
FAIL_SAFE_S = 90
pytestmark = pytest.mark.process


class Pod:
    """One pod's surroundings: its folder, its person's key, and a service that knows its token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.key = load_or_create_key(self.home / "signing.key")
        self.message = folder / "termination"
        self.token_file = folder / "pod-token"
        self.token_file.write_text("nobody's\n")
        self.state = folder / "state"
        self.service: subprocess.Popen[bytes] | None = None
        self.is_first = False
        self.pods: list[subprocess.Popen[str]] = []
        self.url = "http://127.0.0.1:1"
        self.incarnation = "uid-1"

    # -- the service ---------------------------------------------------------------------------------------
    def serve(self) -> httpx.Client:
        environ = {n: v for n, v in os.environ.items() if not n.startswith("KAI_")}
        told = {"KAI_STATE_DIR": str(self.state), "KAI_START_RUNNER": "no", "KAI_PORT": "0"}
        with (self.folder / "service.log").open("wb") as out:
            self.service = subprocess.Popen(
                [sys.executable, "-m", "scheduler_service.cli", "serve", "--embedded"],
                env={**environ, **told, "PYTHONPATH": str(ROOT)},
                stdout=out,
                stderr=out,
                cwd=self.folder,
            )
        lock = self._until(self.state / "service.json")
        self.url = f"http://127.0.0.1:{lock['port']}"
        token = Path(lock["token_path"]).read_text().strip()
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=FAIL_SAFE_S,
            trust_env=False,
        )

    def _until(self, path: Path) -> Any:
        end = time.monotonic() + FAIL_SAFE_S
        while time.monotonic() < end:
            if path.exists():
                return json.loads(path.read_text())
            time.sleep(0.02)
        raise AssertionError(f"{path}: {(self.folder / 'service.log').read_text()}")

    def granted(self, client: httpx.Client, work: Work) -> StartOrder:
        """Submit, and claim as a runner would; the token of the order is what a kubelet would have mounted."""
        ask = Submit(kind="batch", work=work, signature=self.sign(work))
        client.post("/pod-groups", json=encode(ask)).raise_for_status()
        claim = encode(ClaimRequest(runner="test", host="here"))
        end = time.monotonic() + FAIL_SAFE_S
        while time.monotonic() < end:
            starts = client.post("/runner/claim", json=claim).raise_for_status().json()["starts"]
            if starts:
                order = decode(StartOrder, starts[0])
                self.token_file.write_text(order.token)
                self.incarnation = order.incarnation
                return order
            client.get("/runner/orders", params={"runner": "test", "wait_s": 5})
        raise AssertionError("nothing was granted")

    # -- the pod ---------------------------------------------------------------------------------------------
    def sign(self, work: Work) -> str:
        return sign_work(self.key, work)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the entry point; where `is_first`, as the first process of its world, as in a container."""
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home),
            "KAI_SERVICE_URL": self.url,
            "KAI_POD_TOKEN_FILE": str(self.token_file),
            "KAI_POD_FOLDER": str(self.folder / "pod"),
            "KAI_SIGNING_KEY_FILE": str(self.home / "signing.key"),
            "KAI_INCARNATION": self.incarnation,
            "KAI_TERMINATION_FILE": str(self.message),
        }
        process = subprocess.Popen(
            [
                *(("unshare", "-pf", "--kill-child") if self.is_first else ()),
                *(sys.executable, "-m", "scheduler_service.runner.in_pod", *arguments),
            ],
            env={**environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        self.pods.append(process)
        return process

    def begin(self, work: Work, signature: str = "", **variables: str) -> subprocess.Popen[str]:
        text = json.dumps(encode(work))
        return self.start("--work", text, "--signature", signature or self.sign(work), **variables)

    def end(self, process: subprocess.Popen[str]) -> None:
        """Ask it to end, as a kubelet does."""
        pid = process.pid
        if self.is_first:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            pid = int(children.split()[0])
        os.kill(pid, signal.SIGTERM)

    def run(self, work: Work, signature: str = "", **variables: str) -> tuple[int, str, str]:
        process = self.begin(work, signature, **variables)
        out, err = process.communicate(timeout=FAIL_SAFE_S)
        return process.returncode, out, err

    @property
    def told(self) -> Report:
        found = read(self.message.read_text())
        assert found is not None
        return found

    def close(self) -> None:
        for process in self.pods:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if self.service is not None:
            self.service.terminate()
            self.service.wait(FAIL_SAFE_S)


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    world = Pod(tmp_path)
    yield world
    world.close()


def payload_of(source: str, *out: str) -> bytes:
    body = {
        "kind": "cell",
        "source": source,
        "filename": "<cell>",
        "imports": "",
        "variables": {"x": 20},
        "out": list(out),
    }
    return cloudpickle.dumps(body)


def test_a_signed_command_runs_and_its_output_is_the_pods(pod: Pod) -> None:
    work = Work(command=("sh", "-c", 'echo "$GREETING"; echo aside >&2; exit 4'))
    code, out, err = pod.run(work, GREETING="hello")
    assert (code, out, err) == (4, "hello\n", "aside\n")
    assert (pod.told.exit_code, pod.told.incarnation) == (4, "uid-1")


def test_a_cell_fetches_its_variables_and_brings_values_back(pod: Pod) -> None:
    body = payload_of("print('in the pod')\ny = x + 1", "y")
    digest = hashlib.sha256(body).hexdigest()
    work = Work(payload_sha256=digest)
    with pod.serve() as client:
        stored = client.post("/payloads", content=body).raise_for_status().json()
        assert stored["sha256"] == digest
        order = pod.granted(client, work)
        code, out, err = pod.run(work)
        assert (code, out) == (0, "in the pod\n"), err
        assert [(item.name, item.text) for item in pod.told.results] == [("y", "int 21")]
        path = f"/pod-groups/{order.namespace}/{order.group}/result"
        found = client.get(path, params={"rank": 0}).raise_for_status()
    signature = found.headers["X-Kai-Signature"]
    assert is_signed_result(pod.key, order.incarnation, found.content, signature)
    assert cloudpickle.loads(found.content)["values"] == {"y": 21}


def test_a_command_gets_its_payload_as_a_file_that_nobody_else_reads(pod: Pod) -> None:
    body = b"the keys of a kernel"
    digest = hashlib.sha256(body).hexdigest()
    work = Work(command=("sh", "-c", "cat $0; stat -c %a $(dirname $0)", "{payload}"))
    work = replace(work, payload_sha256=digest)
    with pod.serve() as client:
        client.post("/payloads", content=body).raise_for_status()
        pod.granted(client, work)
        code, out, err = pod.run(work)
    assert (code, out) == (0, "the keys of a kernel700\n"), err


def test_a_payload_that_was_not_signed_is_given_to_no_command(pod: Pod) -> None:
    """Whoever holds the store could put another file there; the digest is part of what was signed."""
    body = b"the keys of a kernel"
    digest = hashlib.sha256(body).hexdigest()
    work = Work(command=("cat", "{payload}"), payload_sha256=digest)
    with pod.serve() as client:
        client.post("/payloads", content=body).raise_for_status()
        pod.granted(client, work)
        (rests,) = [path for path in pod.state.rglob(f"*{digest}*") if path.is_file()]
        rests.write_bytes(b"the keys of a stranger")
        code, out, _ = pod.run(work)
    assert (code, out) == (3, "")
    assert pod.told.reason_code == "unsigned"


def test_a_cell_that_fails_tells_its_line(pod: Pod) -> None:
    body = payload_of("z = 1\nz / 0")
    work = Work(payload_sha256=hashlib.sha256(body).hexdigest())
    with pod.serve() as client:
        client.post("/payloads", content=body).raise_for_status()
        pod.granted(client, work)
        code, _, err = pod.run(work)
    assert code == 1
    assert "ZeroDivisionError" in err
    failure = pod.told.failure
    assert failure is not None
    assert (failure.cell_line, failure.message) == (2, "ZeroDivisionError: division by zero")


def test_a_payload_that_is_not_the_pods_is_not_had(pod: Pod) -> None:
    """The token opens the routes of its own pod alone; a stranger's opens nothing."""
    body = payload_of("pass")
    work = Work(payload_sha256=hashlib.sha256(body).hexdigest())
    with pod.serve() as client:
        client.post("/payloads", content=body).raise_for_status()
        pod.granted(client, work)
        pod.incarnation = "another"
        code, _, err = pod.run(work)
    assert code == 3
    assert pod.told.reason_code == "payload_missing"
    assert "could not be had" in err


@pytest.mark.parametrize("kind", ["changed", "no key", "open key"])
def test_what_its_person_did_not_sign_is_not_begun(pod: Pod, kind: str) -> None:
    work = Work(command=("touch", str(pod.folder / "begun")))
    signature = pod.sign(work)
    if kind == "changed":
        work = replace(work, workdir="/")
    elif kind == "no key":
        (pod.home / "signing.key").unlink()
    else:
        (pod.home / "signing.key").chmod(0o640)
    code, _, err = pod.run(work, signature)
    assert code == 3
    assert not (pod.folder / "begun").exists()
    assert pod.told.reason_code == "unsigned"
    assert pod.told.reason_text in err


def test_a_command_that_is_not_there_is_told(pod: Pod) -> None:
    code, _, err = pod.run(Work(command=("no-such-program",)))
    assert code == 127
    assert "is not on the PATH" in err
    assert pod.told.reason_code == "command_not_found"


FIRST = pytest.param(
    True,
    id="first",
    marks=pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None,
        reason="a process namespace needs root and unshare",
    ),
)


@pytest.mark.parametrize("is_first", [pytest.param(False, id="alone"), FIRST])
def test_the_end_of_a_pod_reaches_all_of_its_work(pod: Pod, *, is_first: bool) -> None:
    pod.is_first = is_first
    script = "trap 'echo bye; exit 7' TERM; sleep 1000 & echo ready; wait"
    process = pod.begin(Work(command=("sh", "-c", script)))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    pod.end(process)
    out, _ = process.communicate(timeout=FAIL_SAFE_S)
    assert (process.returncode, out) == (7, "bye\n")


def test_what_a_signal_ended_is_told_as_a_shell_tells_it(pod: Pod) -> None:
    code, _, _ = pod.run(Work(command=("sh", "-c", "kill -9 $$")))
    assert code == 137
    assert pod.told.signal == "SIGKILL"


def test_what_work_leaves_behind_ends_with_it(pod: Pod) -> None:
    """Its output is the container's: it would keep it open, and the device held."""
    code, out, _ = pod.run(Work(command=("sh", "-c", "sleep 1000 & echo done")))
    assert (code, out) == (0, "done\n")


def test_orphans_are_collected_while_the_work_goes_on(pod: Pod) -> None:
    script = "(sh -c 'exit 0' &) ; (sh -c 'exit 1' &) ; sleep 0; echo done"
    code, out, _ = pod.run(Work(command=("sh", "-c", script)))
    assert (code, out) == (0, "done\n")


@pytest.mark.parametrize("is_first", [pytest.param(False, id="alone"), FIRST])
def test_a_lease_holds_until_it_is_ended(pod: Pod, *, is_first: bool) -> None:
    pod.is_first = is_first
    process = pod.start("--hold")
    assert process.stdout is not None
    assert "until it is released" in process.stdout.readline()
    assert process.poll() is None
    pod.end(process)
    process.communicate(timeout=FAIL_SAFE_S)
    assert process.returncode == 0
