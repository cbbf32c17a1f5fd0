"""A wheel built from this tree, and a clean environment into which it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.environment import BUILT_CARD, BUILT_LABEXTENSION
from tools.progress import ROOT

UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True, slots=True)
class CleanEnvironment:
    """A virtual environment that has the wheel and what it depends on, and no Node."""

    bin: Path
    variables: Mapping[str, str]

    def run(self, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Return what `program` of this environment prints; fail with it if the program fails."""
        return checked([str(self.bin / program), *arguments], env=env or self.variables)


def checked(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> str:
    """Return stdout and stderr of `command`, which must succeed."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=dict(env or os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a release does."""
    assert (BUILT_LABEXTENSION / "package.json").exists(), "run `make env`: it builds the page side"
    assert BUILT_CARD.exists(), "run `make env`: it builds the card"
    return build("wheel", "*.whl", tmp_path_factory.mktemp("dist"))


def build(target: str, pattern: str, folder: Path, *, cwd: Path = ROOT, path: str = "") -> Path:
    """Build `target` (wheel or sdist) of the tree at `cwd` into `folder`."""
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    checked(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder],
        env=environment,
        cwd=cwd,
    )
    (built,) = folder.glob(pattern)
    return built


@pytest.fixture(scope="session")
def clean_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """Install the wheel where nothing else is, with the locked versions of its dependencies."""
    folder = tmp_path_factory.mktemp("clean")
    checked([UV, "venv", "--python", sys.executable, folder / "venv"])
    python = folder / "venv" / "bin" / "python"
    constraints = ROOT / "requirements" / "dev.txt"
    checked([UV, "pip", "install", "--python", python, "--constraint", constraints, wheel])
    bin_ = python.parent
    assert shutil.which("node", path=str(bin_)) is None
    kept = ("LANG", "LC_ALL", "TMPDIR")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    return CleanEnvironment(bin_, {**variables, "PATH": str(bin_), "HOME": str(folder)})
