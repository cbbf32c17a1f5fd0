"""The notebooks that people open first, run from top to bottom against the real embedded service."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebooks.conftest import Run, cell_with
from tools.progress import ROOT

NOTEBOOKS = ROOT / "demo_notebooks"
MARGIN = 0.03
"""What the grade of four workers may differ from that of one: 13 of the 450 pictures of the exam."""

pytestmark = pytest.mark.process


def test_the_tour(run: Run):
    notebook = nbformat.read(NOTEBOOKS / "00_tour.ipynb", as_version=4)
    values = run(notebook, "pi", "answer", "hits")

    assert "0.5 GPU" in cell_with(notebook, "%gpu 0.5 --wait")
    assert "simulated" in cell_with(notebook, "%gpu 0.5 --wait")
    assert "'KAI_GPU_FRACTION': '0.5'" in cell_with(notebook, "KAI_GPU_DEVICES")
    assert values["pi"] == pytest.approx(3.1416, abs=0.02)
    assert 150_000 < values["hits"] < 160_000  # the value of --out is a variable of the notebook
    assert "3 of 4 workers fit" in cell_with(notebook, "--name patient")
    assert "0.5 GPU" in cell_with(notebook, "%gang why")
    assert values["answer"] == "thanks for waiting"
    listed = cell_with(notebook, "%gang ls")
    for name in ("darts", "patient", "endless"):
        assert name in listed


def test_four_workers_reach_the_grade_of_one(run: Run):
    notebook = nbformat.read(NOTEBOOKS / "01_gang_training.ipynb", as_version=4)
    values = run(notebook, "alone", "lonely", "grades", "together")
    alone, lonely, grades = values["alone"], values["lonely"], values["grades"]

    assert len(grades) == 4
    assert len(set(grades)) == 1, "the workers did not train one model but four"
    assert alone > 0.95
    assert abs(grades[0] - alone) <= MARGIN
    assert grades[0] > lonely, "a worker learned nothing from the others"
    assert values["together"] == grades[0]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_no_output_is_committed(path):
    notebook = nbformat.read(path, as_version=4)

    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_there_are_notebooks_to_look_at():
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} >= {
        "00_tour.ipynb",
        "01_gang_training.ipynb",
    }
