"""The README does what it shows."""

from __future__ import annotations

import re

import nbformat
import pytest

from tests.notebooks.conftest import Run, cell_with
from tools.progress import ROOT

README = (ROOT / "README.md").read_text()
EXAMPLE = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.process
def test_the_example_of_the_readme_runs(run: Run):
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in EXAMPLE]
    notebook = nbformat.v4.new_notebook(cells=cells)
    values = run(notebook, "total", "squares")

    assert "0.5 GPU" in cell_with(notebook, "%gpu 0.5")
    assert values["squares"] == 49
    assert values["total"] == sum(range(0, 1_000_000, 4))  # worker 0 has every fourth number


def test_the_example_is_short():
    lines = [line for source in EXAMPLE for line in source.splitlines() if line.strip()]

    assert 10 < len(lines) <= 20


def test_the_readme_is_short_and_its_files_exist():
    assert len(README.splitlines()) < 150
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), f"README.md points to {target}, which is not there"
