"""What every test gets: a state folder of its own, and the shared data where it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test, and the processes it starts, out of the person's own state."""
    for name in [name for name in os.environ if name.startswith("KAI_")]:
        if name not in {"KAI_SHARED", "KAI_TEST_BROWSER"}:
            monkeypatch.delenv(name)
    folder = tmp_path / "kai-state"
    monkeypatch.setenv("KAI_STATE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Give the folder of shared test data, or skip with the reason."""
    folder = Path(os.environ.get("KAI_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"the shared test data is not at {folder}; set KAI_SHARED")
    return folder
