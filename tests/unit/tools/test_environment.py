"""The environment is made again after a change of the project, on top of what an earlier run left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import environment


def test_an_install_does_not_write_through_the_link_of_an_earlier_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, venv = tmp_path / "built", tmp_path / "venv"
    monkeypatch.setattr(environment, "BUILT_LABEXTENSION", built)
    monkeypatch.setattr(environment, "VENV", venv)
    data = venv / "share/jupyter/labextensions/@kai/jupyter"

    def install(*_: object, **__: object) -> None:
        data.mkdir(parents=True, exist_ok=True)
        (data / "install.json").write_text("{}")

    monkeypatch.setattr(environment, "_uv", install)
    for _ in range(2):
        environment._install_project()
        assert not data.is_symlink()
        environment._link_labextension()
        assert data.resolve() == built
    assert list(built.iterdir()) == []


def test_what_an_older_install_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "built"
    built.mkdir()
    (built / "install.json").write_text("{}")
    monkeypatch.setattr(environment, "BUILT_LABEXTENSION", built)
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    monkeypatch.setattr(environment, "_uv", lambda *_, **__: None)
    environment._install_project()
    assert list(built.iterdir()) == []
