"""A payload in a worker process: values out, failures with their line, nothing unsigned is run."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import cloudpickle
import pytest

from kai_jupyter.capture import capture_cell, capture_function
from scheduler_service.wire.pod_group import Work
from scheduler_service.wire.runner import StartOrder
from scheduler_service.wire.signing import is_signed_result, load_or_create_key, sign_work

pytestmark = pytest.mark.process

ORDER = StartOrder(
    incarnation="inc-1", namespace="ana", group="run", pod="run-0", kind="gang", rank=0, workers=1, node="here",
    devices=(), fraction_milli=0, share_mib=None, cpu_milli=0, memory_bytes=0, grace_s=15, token="t",
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Run a payload as the supervisor would; return the exit code and the pod's folder."""
    key_file = tmp_path / "key"
    key = load_or_create_key(key_file)

    def go(payload, *, sign_with=key, tamper=b""):
        pod = tmp_path / "pod"
        pod.mkdir()
        work = Work(payload_sha256=hashlib.sha256(payload).hexdigest(), workdir=str(tmp_path))
        order = replace(ORDER, work=work, signature=sign_work(sign_with, work))
        (pod / "order.json").write_text(json.dumps(asdict(order)))
        (pod / "payload").write_bytes(payload + tamper)
        done = subprocess.run(
            [sys.executable, "-m", "scheduler_service.runner.worker", str(pod)],
            env={**os.environ, "KAI_SIGNING_KEY_FILE": str(key_file)},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, pod

    go.key = key
    return go


def values_in(pod):
    return cloudpickle.loads((pod / "result").read_bytes())["values"]


def test_a_cell_brings_its_values_back_signed(run):
    captured = capture_cell(
        "import math\nloss = math.sqrt(x)\nprint('hello')", {"x": 16}, out=["loss"]
    )
    done, pod = run(captured.payload)

    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert values_in(pod) == {"loss": 4.0}
    signature = (pod / "result.sig").read_text()
    assert is_signed_result(run.key, "inc-1", (pod / "result").read_bytes(), signature)
    items = json.loads((pod / "results.json").read_text())
    assert [(i["name"], i["text"]) for i in items] == [("loss", "float 4.0")]


def test_what_a_cell_defines_comes_back_by_value(run):
    cell = "class Box:\n    width = 3\ndef area(b):\n    return b.width ** 2\nbox = Box()"
    done, pod = run(capture_cell(cell, {}, out=["box", "area"]).payload)

    assert done.returncode == 0, done.stderr
    values = values_in(pod)
    assert values["area"](values["box"]) == 9


def test_a_failure_has_the_line_of_the_cell(run):
    cell = "def step(n):\n    return 1 / n\n\nfor n in (2, 1, 0):\n    step(n)"
    done, pod = run(capture_cell(cell, {}, filename="Cell [7]").payload)

    failure = json.loads((pod / "failure.json").read_text())
    assert done.returncode == 1
    assert failure["message"] == "ZeroDivisionError: division by zero"
    assert failure["cell_line"] == 2
    assert "return 1 / n" in failure["traceback"]
    assert "worker.py" not in failure["traceback"]
    assert failure["source"] == cell


def test_a_function_runs_and_its_failure_has_its_own_line(run):
    def train(n):
        total = n + 1
        return total / 0

    train.__module__ = "__main__"
    _done, pod = run(capture_function(train, (2,), {}).payload)

    assert json.loads((pod / "failure.json").read_text())["cell_line"] == 3


def test_top_level_await_works(run):
    cell = "import asyncio\nawait asyncio.sleep(0)\nok = True"
    done, pod = run(capture_cell(cell, {}, out=["ok"]).payload)

    assert done.returncode == 0, done.stderr
    assert values_in(pod) == {"ok": True}


def test_an_out_that_was_not_set_on_this_path_is_told(run):
    _done, pod = run(capture_cell("if False:\n    loss = 1", {}, out=["loss"]).payload)

    assert "without setting 'loss'" in json.loads((pod / "failure.json").read_text())["message"]


def test_a_result_that_cannot_be_pickled_is_told(run):
    cell = "import threading\nguard = threading.Lock()"
    done, pod = run(capture_cell(cell, {}, out=["guard"]).payload)

    assert done.returncode == 1
    assert (
        "'guard' (lock) cannot be sent back"
        in json.loads((pod / "failure.json").read_text())["message"]
    )


def test_exit_codes_of_the_cell_are_kept(run):
    done, _pod = run(capture_cell("import sys\nsys.exit(7)", {}).payload)

    assert done.returncode == 7


@pytest.mark.parametrize("how", ["foreign key", "other payload"])
def test_what_is_not_signed_by_its_owner_is_never_unpickled(run, how, tmp_path):
    """Somebody puts a payload into the store: the worker must not even look into it."""

    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    payload = cloudpickle.dumps(Trap())
    if how == "foreign key":
        done, pod = run(payload, sign_with=b"x" * 32)
    else:
        done, pod = run(payload, tamper=b"!")

    assert done.returncode == 3
    assert "igned" in json.loads((pod / "failure.json").read_text())["message"]
    assert not (tmp_path / "sprung").exists()
