"""Run notebooks as a person does, each with a service of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

PATIENCE_S = 300


class Run(Protocol):
    """Run a notebook in place; return the values of these names of it."""

    def __call__(self, notebook: NotebookNode, *names: str) -> dict[str, object]: ...


@pytest.fixture(autouse=True)
def service_ends(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the notebook start a service of its own, and end it with the test."""
    monkeypatch.setenv("IPYTHONDIR", str(state_dir.parent / "ipython"))
    monkeypatch.setenv("KAI_SIMULATE_GPUS", "2x24GiB")
    yield
    subprocess.run([Path(sys.executable).with_name("kai"), "stop"], check=True)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def execute(notebook: NotebookNode, *names: str) -> dict[str, object]:
        shown = f"import json; print(json.dumps({{name: globals()[name] for name in {names!r}}}))"
        notebook.cells.append(nbformat.v4.new_code_cell(shown))
        NotebookClient(
            notebook,
            timeout=PATIENCE_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
        values: dict[str, object] = json.loads(text_of(notebook.cells[-1]))
        return values

    return execute


def text_of(cell: NotebookNode) -> str:
    """Return what can be read below a cell."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


def cell_with(notebook: NotebookNode, words: str) -> str:
    """Return what can be read below the one code cell that holds these words."""
    (cell,) = [c for c in notebook.cells if c.cell_type == "code" and words in c.source]
    return text_of(cell)
