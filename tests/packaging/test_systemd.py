"""The unit and its snippets: read by systemd's own tools where they are there, and in step with the code."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from scheduler_service.settings.table import MACHINE_STATE, load
from scheduler_service.wire.locate import MACHINE_SOCKET

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT = FOLDER / "kai.service"


def values(name: str) -> list[str]:
    lines = UNIT.read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here")
    return found


def test_systemd_finds_nothing_to_say_about_the_unit(tmp_path):
    """Validated, not started: the program of its first line is put in the place of ours, which is not installed."""
    unit = tmp_path / "kai.service"
    unit.write_text(UNIT.read_text().replace("/opt/kai/bin/kai", "/bin/true"))
    answer = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


def test_the_unit_says_what_the_settings_expect():
    (environment,) = values("Environment")
    variables = dict(item.split("=", 1) for item in shlex.split(environment))
    (start,) = values("ExecStart")
    assert start.split()[1:] == ["serve", "--shared"]
    settings = load({"shared": "yes"}, environ=variables)
    assert (settings.state_dir, settings.socket) == (MACHINE_STATE, MACHINE_SOCKET)
    assert load({"shared": "yes"}, environ={}).state_dir == MACHINE_STATE
    assert f"/var/lib/{values('StateDirectory')[0]}" == str(MACHINE_STATE)
    assert values("User") == ["kai"]
    assert values("CapabilityBoundingSet") == [""]


def test_the_account_and_the_folder_are_made(tmp_path):
    """By systemd's own tools, in an empty root."""
    sysusers, tmpfiles = tool("systemd-sysusers"), tool("systemd-tmpfiles")
    if os.geteuid() != 0:
        pytest.skip("needs root to give files away")
    (tmp_path / "etc").mkdir()
    (tmp_path / "run").mkdir()
    root = f"--root={tmp_path}"
    subprocess.run([sysusers, root, str(FOLDER / "kai.sysusers.conf")], check=True)
    passwd = dict(line.split(":", 1) for line in (tmp_path / "etc/passwd").read_text().splitlines())
    assert ":/var/lib/kai:" in passwd["kai"]
    assert "kai-admin:" in (tmp_path / "etc/group").read_text()
    subprocess.run([tmpfiles, root, "--create", str(FOLDER / "kai.tmpfiles.conf")], check=True)
    folder = (tmp_path / "run/kai").stat()
    assert folder.st_uid == int(passwd["kai"].split(":")[1])
    assert folder.st_mode & 0o777 == 0o755
