"""The demo of a hosted notebook service, as far as one machine can tell: its scripts, its lock files, its tour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

from kai_jupyter.client import KaiClient
from scheduler_service.simulate import busy
from tests.notebooks.conftest import Run, cell_with
from tools.progress import ROOT

BINDER = ROOT / "binder"

pytestmark = pytest.mark.process


@pytest.fixture
def as_in_the_image(monkeypatch):
    """Give this test the variables that `start` gives the notebook server."""
    monkeypatch.delenv("KAI_SIMULATE_GPUS")
    told = subprocess.check_output(
        [
            BINDER / "start",
            sys.executable,
            "-c",
            "import json, os; print(json.dumps(dict(os.environ)))",
        ]
    )
    for name, value in json.loads(told).items():
        if name.startswith("KAI_"):
            monkeypatch.setenv(name, value)


def test_start_runs_what_it_is_given_and_hands_its_end_on():
    for script in ("start", "postBuild"):
        assert os.access(BINDER / script, os.X_OK), script
        subprocess.run(["bash", "-n", BINDER / script], check=True)
    answer = subprocess.run([BINDER / "start", "sh", "-c", "exit 7"], check=False)
    assert answer.returncode == 7


def test_the_environment_names_what_is_there():
    """Whether the lock files resolve is known since `make env`, which installs from the same ones."""
    version = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={version}"
    lines = (BINDER / "postBuild").read_text().split()
    named = [Path(word) for word in lines if word.startswith("requirements/")]
    assert named
    for file in named:
        assert (ROOT / file).is_file(), file


def test_the_tour_runs_on_a_busy_machine(run: Run, as_in_the_image):
    notebook = nbformat.read(ROOT / "demo_notebooks" / "00_tour.ipynb", as_version=4)
    values = run(notebook, "pi", "answer", "hits")

    assert "simulated" in cell_with(notebook, "%gpu 0.5 --wait")
    assert values["pi"] == pytest.approx(3.1416, abs=0.02)
    assert values["answer"] == "thanks for waiting"
    with KaiClient(start=False) as client:
        people = {group.owner for group in client.groups().items}
        assert people >= {habit.user for habit in busy.people(client.me().user)}
        (node,) = client.nodes()
        assert len(node.devices) == 8
        assert {q.name for q in client.queues() if q.running} >= {"vision", "language"}
