from __future__ import annotations

from pathlib import Path

from scheduler_service.runner.options import name_of


def test_each_state_directory_has_a_runner_of_its_own_name(tmp_path: Path) -> None:
    """One person has a second state directory: what one runner claimed is not given to the other too."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (tmp_path / "link").symlink_to(one)
    assert name_of(one) != name_of(other)
    assert name_of(one) == name_of(tmp_path / "link")
