"""`%%gang`, `@gang` and handles, against the real embedded service and real workers."""

import asyncio
import threading

import pytest

from kai_jupyter import gang
from kai_jupyter import session as sessions
from kai_jupyter.errors import (
    CaptureError,
    GangFailed,
    KaiRequestError,
    UsageError,
    WaitInterrupted,
)
from scheduler_service.wire.signing import load_or_create_key
from tests.jupyter.conftest import fill

pytestmark = pytest.mark.process


def test_a_cell_runs_on_all_workers_and_its_value_comes_back(cell, shell):
    cell("base = 20")
    told = cell(
        "%%gang -n 2 --gpu 0.25 --out total --wait\n"
        "import os\n"
        "rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        "print('worker', rank, 'of', size)\n"
        "total = base + size + rank"
    )

    assert "worker 0 of 2" in told
    assert shell.user_ns["total"] == 22
    assert "2 workers \N{MULTIPLICATION SIGN} 0.25 GPU" in told


def test_the_handle_comes_back_at_once_and_gives_each_ranks_value(cell, shell):
    cell("%%gang -n 2 --out mine --name ranks\nimport os\nmine = int(os.environ['RANK']) * 10")
    handle = gang("ranks")

    assert handle.result() == 0
    assert handle.result(rank=1) == 10


def test_values_arrive_between_cells_without_asking(cell, shell):
    cell("%%gang -n 1 --out later --name deliver\nlater = 'here'")
    gang("deliver").wait(echo=False)

    assert cell("print(later)") == "here\n"


def test_several_values_come_back_in_the_order_of_out(cell, shell):
    cell("%%gang -n 1 --out b,a --name two\na, b = 1, 2")

    assert gang("two").result() == (2, 1)


def test_the_first_failure_has_its_line_of_the_cell(cell):
    with pytest.raises(GangFailed) as told:
        cell(
            "%%gang -n 2 --wait\n"
            "import os, time\n"
            "if os.environ['RANK'] == '1':\n"
            "    raise ValueError('loss is nan')\n"
            "while True:\n"
            "    time.sleep(0.1)"
        )

    sentence = str(told.value)
    assert "Worker 1 failed first" in sentence
    assert ">   3      raise ValueError('loss is nan')" in sentence
    assert "ValueError: loss is nan" in sentence
    assert "worker.py" not in sentence


def test_unpicklable_variables_are_told_before_anything_is_submitted(cell, embedded):
    cell("import threading\nguard = threading.Lock()")
    with embedded.client() as client:
        before = len(client.groups().items)
        with pytest.raises(CaptureError, match=r"'guard' .* cannot be sent to workers"):
            cell("%%gang -n 2\nprint(guard)")

        assert len(client.groups().items) == before
    assert "Traceback" not in cell.output + cell.errors


def test_a_payload_over_the_limit_names_the_variable(cell, monkeypatch):
    monkeypatch.setenv("KAI_PAYLOAD_LIMIT_MIB", "1")
    cell("train_ds = b'x' * 3_000_000")

    with pytest.raises(CaptureError, match=r"The biggest: train_ds \(3 MiB\)"):
        cell("%%gang -n 2\nlen(train_ds)")


@pytest.mark.parametrize(
    ("line", "error", "what"),
    [
        ("%%gang -n 0\npass", KaiRequestError, "0"),
        ("%%gang -n 9 --gpu 1\npass", KaiRequestError, "9"),
        ("%%gang -n 2 --gpu 0.25 --memory 1GiB\npass", KaiRequestError, "memory"),
        ("%%gang 4\npass", UsageError, "does not know '4'"),
        ("%%gang -n 2 --out missing\nx = 1", CaptureError, "never sets 'missing'"),
        ("%%gang -n 2\n%timeit 1", CaptureError, "is a notebook command"),
        ("%gang dance", UsageError, "%gang dance is not known"),
        ("%gang logs nobody", KaiRequestError, "nobody"),
    ],
)
def test_bad_gangs_get_a_sentence(cell, line, error, what):
    with pytest.raises(error, match=what):
        cell(line)

    assert "Traceback" not in cell.output + cell.errors


def test_gangs_are_listed_and_their_output_is_kept(cell):
    cell("%%gang -n 2 --name kept --wait\nimport os\nprint('hello from', os.environ['RANK'])")

    assert "kept" in cell("%gang ls")
    told = cell("%gang logs kept")
    assert "0  hello from 0" in told
    assert "1  hello from 1" in told
    assert cell("%gang logs kept --rank 1") == "hello from 1\n"


def test_stop_ends_a_gang(cell, shell):
    cell("%%gang -n 2 --name endless\nimport time\nwhile True:\n    time.sleep(0.1)")
    handle = gang("endless")
    handle.wait_until(lambda view: view.state == "Running", 60)
    cell("%gang stop endless")

    with pytest.raises(GangFailed, match="ancelled"):
        handle.wait(echo=False)


def test_ctrl_c_stops_waiting_and_not_the_gang(cell, shell, monkeypatch):
    cell("%%gang -n 1 --name long\nimport time\nwhile True:\n    time.sleep(0.1)")
    handle = gang("long")
    monkeypatch.setattr(handle, "stream", _interrupted)

    with pytest.raises(WaitInterrupted, match=r'long goes on. gang\("long"\).wait\(\) waits again'):
        handle.wait()
    assert not handle.refresh().ended_at


def test_a_new_kernel_finds_the_gang_by_name(cell, shell, monkeypatch):
    """The kernel was restarted: nothing of the old session is left but the name."""
    cell("%%gang -n 1 --out answer --name again\nanswer = 42")
    sessions.in_use().close()
    monkeypatch.setattr(sessions, "_sessions", [])

    assert gang("again").result() == 42


def test_a_result_that_somebody_else_signed_is_not_unpacked(cell, shell, monkeypatch, tmp_path):
    cell("%%gang -n 1 --out answer --name forged\nanswer = 42")
    handle = gang("forged").wait(echo=False)
    load_or_create_key(tmp_path / "other.key")
    monkeypatch.setenv("KAI_SIGNING_KEY_FILE", str(tmp_path / "other.key"))

    with pytest.raises(GangFailed, match="does not carry your signature"):
        handle.result()


def test_a_decorated_function_runs_on_workers(cell, shell):
    cell(
        "from kai_jupyter import gang\n"
        "@gang(n=2, gpu=0.25)\n"
        "def train(lr, epochs=1):\n"
        "    import os\n"
        "    return lr * epochs + int(os.environ['RANK'])\n"
        "h = train(0.5, epochs=4)"
    )
    handle = shell.user_ns["h"]

    assert handle.result() == 2.0
    assert handle.result(rank=1) == 3.0


def test_a_handle_can_be_awaited(cell, shell):
    cell("%%gang -n 1 --out n --name awaited\nn = 7")

    async def wait():
        return await gang("awaited")

    assert asyncio.run(wait()) == 7


def test_progress_that_workers_report_is_seen(cell, shell):
    cell(
        "%%gang -n 1 --name steps\n"
        "import time\n"
        "from kai_jupyter import report\n"
        "while True:\n"
        "    report(3, 10, loss=0.25)\n"
        "    time.sleep(0.3)"
    )
    handle = gang("steps")

    assert handle.wait_until(lambda view: any(p.progress for p in view.pods), 60)
    assert "worker 0: step 3 of 10, loss 0.25" in handle.text
    handle.stop()


def test_a_gang_that_must_wait_says_how_many_fit(cell, embedded):
    with embedded.client() as client:
        fill(client, gpu=1)
    told = cell("%%gang -n 2 --gpu 0.75 --name wide\npass")

    assert "Waiting" in told
    assert "1 of 2 workers" in told
    gang("wide").stop()


def _interrupted():
    raise KeyboardInterrupt


def test_waiting_threads_do_not_outlive_their_gang(cell, shell):
    cell("%%gang -n 1 --name brief --wait\npass")

    assert not [t for t in threading.enumerate() if t.name == "kai-output-brief"]
