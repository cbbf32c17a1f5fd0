"""`%gpu` beside a cluster: a companion on the real node holds the device and runs a notebook's cells."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from kai_jupyter import load_ipython_extension
from kai_jupyter.companions import Companion
from kai_jupyter.errors import CellFailed, CellLost
from kai_jupyter.session import Session
from tests.cluster.notebook_bed import Desk, desk, notebook
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import wait_until
from tests.cluster.testbed.real_node import RealNode

SLOW_S = 180


@pytest.fixture(scope="module")
def place(
    kai_cluster: Cluster,
    real_node: RealNode,
    say: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    with desk(kai_cluster, say, tmp_path_factory.mktemp("kept")) as found:
        yield found
    kai_cluster.clean()


@pytest.fixture
def ana(place: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MY_TOKEN", "hidden")
    session = notebook(place, tmp_path, monkeypatch)
    yield session
    session.close()


class Notebook:
    """Cells, and what they print."""

    def __init__(self, session: Session) -> None:
        self.shell: Any = InteractiveShell()
        session.shell = self.shell
        load_ipython_extension(self.shell)

    def run(self, cell: str) -> str:
        """Return what a cell prints; raise what it raises."""
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            result = self.shell.run_cell(cell)
        result.raise_error()
        return out.getvalue()


@pytest.fixture
def cells(ana: Session) -> Iterator[Notebook]:
    found = Notebook(ana)
    yield found
    if ana.lease is not None:
        ana.lease.release()
    InteractiveShell.clear_instance()


def companion(session: Session) -> Companion:
    assert isinstance(session.lease, Companion)
    return session.lease


def test_the_story_of_a_notebook_with_a_companion(cells: Notebook, ana: Session) -> None:
    cells.run("%gpu 1 --preemptible")
    lease = companion(ana)
    lease.wait(SLOW_S)

    told = cells.run(
        "%%gpu\nimport os, sys\nheld = os.environ['NVIDIA_VISIBLE_DEVICES']\n"
        "print(held, os.environ.get('OMP_NUM_THREADS'), os.environ.get('MY_TOKEN'))\n"
        "print('aside', file=sys.stderr)\nos.getpid()"
    )
    first, second, third = told.splitlines()
    device, *rest = first.split()
    assert device.startswith("GPU-real-")
    assert rest == ["3", "None"], "variables travel by an allow-list"
    assert {second, third} - {"aside"}, "the value of the last line is shown"
    assert "aside" in {second, third}

    cells.run("x = 20")
    cells.run("%%gpu\nx = x + 1\nbox = [x]")
    cells.run("%%gpu --out y\nbox.append(x)\ny = box * 2")
    assert cells.shell.user_ns["y"] == [21, 21, 21, 21], "variables stay where they were made"
    assert cells.shell.user_ns["x"] == 20
    cells.run("x = 30")
    assert cells.run("%%gpu\nprint(x)") == "30\n", "what is new in the notebook goes along"

    with pytest.raises(CellFailed) as failed:
        cells.run("%%gpu\na = 1\na / 0")
    assert "ZeroDivisionError" in str(failed.value)
    assert "a / 0" in str(failed.value)

    def square(n: int) -> int:
        return n * n

    assert lease.run(square, 7) == 49
    cells.run("%gpu release")
    lease.wait_until(lambda view: view.state == "Succeeded" or lease.is_over, SLOW_S)
    assert lease.is_over


def test_ctrl_c_ends_the_cell_and_leaves_the_variables(cells: Notebook, ana: Session) -> None:
    cells.run("%gpu 1 --preemptible")
    companion(ana).wait(SLOW_S)
    cells.run("%%gpu\nkept = 5")

    class Heard(io.StringIO):
        """Presses Ctrl-C when the cell says that it waits."""

        def write(self, text: str) -> int:
            if "waiting" in text:
                threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
            return super().write(text)

    with redirect_stdout(Heard()):
        result = cells.shell.run_cell("%%gpu\nimport time\nprint('waiting')\ntime.sleep(600)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert cells.run("%%gpu\nprint(kept)") == "5\n"


def test_a_python_that_dies_is_told_and_the_device_stays(cells: Notebook, ana: Session) -> None:
    cells.run("%gpu 1 --preemptible")
    lease = companion(ana).wait(SLOW_S)
    cells.run("z = 1")
    cells.run("%%gpu\nz += 1")
    with pytest.raises(CellLost, match=r"signal SIGKILL.*variables are gone"):
        cells.run("%%gpu\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert lease.is_granted
    assert cells.run("%%gpu\nprint(z)") == "1\n", "what the notebook has goes along anew"


def test_an_eviction_is_told_to_the_cell_that_runs(
    cells: Notebook, ana: Session, place: Desk
) -> None:
    cells.run("%gpu 1 --preemptible")
    lease = companion(ana).wait(SLOW_S)
    path = f"{place.pods}/{lease.name}"

    class Heard(io.StringIO):
        """Has the pod evicted when the cell says that it waits."""

        def write(self, text: str) -> int:
            if "waiting" in text:
                eviction = {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": lease.name, "namespace": lease.view.namespace},
                }
                place.cluster.admin.post(f"{path}/eviction", eviction)
            return super().write(text)

    with redirect_stdout(Heard()):
        result = cells.shell.run_cell("%%gpu\nimport time\nprint('waiting')\ntime.sleep(600)")
    assert isinstance(result.error_in_exec, CellLost), result
    assert "told to end" in str(result.error_in_exec)
    wait_until(lambda: lease.refresh() and lease.is_over, "the lease is over", fail_safe_s=SLOW_S)
