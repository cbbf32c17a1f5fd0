"""The real user's way: one wheel, `pip install`, `jupyter lab`, and a cell that is granted."""

from __future__ import annotations

import json
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from kai_jupyter import __version__
from tests.packaging.conftest import CleanEnvironment, build
from tools.lab import root_options
from tools.served import free_port, isolated, started
from tools.smoke import run_checks

DATA = f"kai_jupyter-{__version__}.data/data"
PAGE = f"{DATA}/share/jupyter/labextensions/@kai/jupyter"


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def text_of(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


@pytest.mark.parametrize(
    "name",
    [
        f"{PAGE}/package.json",
        f"{PAGE}/install.json",
        f"{PAGE}/static/style.js",
        f"{PAGE}/schemas/@kai/jupyter/plugin.json",
        f"{DATA}/etc/jupyter/jupyter_server_config.d/kai_jupyter.json",
        f"{DATA}/share/jupyter/kernels/kai-gpu/kernel.json",
        "kai_jupyter/widgets/static/card.js",
        "kai_jupyter/widgets/static/card.css",
        "kai_jupyter/widgets/static/team.js",
        "kai_jupyter/widgets/static/team.css",
        "kai_jupyter/dashboards/team.ipynb",
        f"{DATA}/share/jupyter/voila/templates/kai/index.html.j2",
        f"{DATA}/share/jupyter/voila/templates/kai/conf.json",
        "kai_jupyter/py.typed",
        "scheduler_service/py.typed",
    ],
)
def test_the_wheel_holds(names, name):
    assert name in names


def test_the_wheel_holds_a_remote_entry_that_its_manifest_names(wheel, names):
    """A build that was interrupted leaves a manifest without the code it names."""
    manifest = json.loads(text_of(wheel, f"{PAGE}/package.json"))
    assert f"{PAGE}/{manifest['jupyterlab']['_build']['load']}" in names


def test_every_event_schema_is_in_the_wheel(names):
    schemas = {path.name for path in Path("kai_jupyter/event_schemas").glob("*.yaml")}
    assert schemas
    assert schemas <= {name.rpartition("/")[2] for name in names}


def test_the_wheel_holds_nothing_of_the_workshop(names):
    first = {name.partition("/")[0] for name in names}
    info = f"kai_jupyter-{__version__}.dist-info"
    assert first == {"kai_jupyter", "scheduler_service", info, DATA.partition("/")[0]}
    assert not [name for name in names if "node_modules" in name or "__pycache__" in name]


def test_the_licence_and_the_scripts_are_declared(wheel):
    info = f"kai_jupyter-{__version__}.dist-info"
    metadata = Parser().parsestr(text_of(wheel, f"{info}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    entries = text_of(wheel, f"{info}/entry_points.txt")
    assert "kai = " in entries
    assert "jupyter-kai = " in entries
    assert "kai-provisioner = " in entries


def test_a_wheel_is_built_from_the_sdist_without_node(wheel, tmp_path):
    """Somebody installs from the source archive on a machine without Node."""
    sdist = build("sdist", "*.tar.gz", tmp_path)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    again = build("wheel", "*.whl", tmp_path / "again", cwd=source, path="/nonexistent")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(first.namelist()) == set(second.namelist())


def test_everything_is_enabled_after_an_install(clean_environment: CleanEnvironment):
    extensions = clean_environment.run("jupyter", "labextension", "list")
    (line,) = [line for line in extensions.splitlines() if "@kai/jupyter" in line]
    assert "enabled" in line
    assert "OK" in line
    servers = clean_environment.run("jupyter", "server", "extension", "list")
    (line,) = [line for line in servers.splitlines() if "kai_jupyter" in line and "OK" in line]
    assert f"kai_jupyter {__version__}" in line
    kernels = json.loads(clean_environment.run("jupyter", "kernelspec", "list", "--json"))
    assert "kai-gpu" in kernels["kernelspecs"]


def test_the_command_line_comes_with_the_wheel(clean_environment: CleanEnvironment):
    shown = clean_environment.run("kai", "--help")
    for command in ("serve", "status", "submit", "logs", "cancel", "explain", "conformance"):
        assert command in shown


@pytest.mark.process
def test_a_plain_jupyter_lab_grants_a_cell(clean_environment: CleanEnvironment, tmp_path):
    """`pip install kai-jupyter && jupyter lab`: the server extension starts the service itself."""
    environment = isolated(clean_environment.variables, tmp_path)
    jupyter = str(clean_environment.bin / "jupyter")
    port = f"--ServerApp.port={free_port()}"
    command = [jupyter, "lab", *root_options(), "--no-browser", port]
    with started(command, tmp_path, environment, cwd=tmp_path) as server:
        run_checks(server)
