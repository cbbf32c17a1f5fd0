"""`jupyter kai`: every link has a verdict, and what is not well has an advice."""

import json
import subprocess
import sys

import pytest

from kai_jupyter import doctor
from tests.jupyter.conftest import fill


def test_every_link_is_told_and_what_is_wrong_says_what_to_do(capsys):
    doctor.main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)

    assert {"package", "server extension", "lab extension", "service", "signing key"} <= {
        f["link"] for f in findings
    }
    assert all(f["advice"] for f in findings if f["verdict"] == "bad")


def test_a_service_that_does_not_run_is_no_trouble(capsys):
    doctor.main(["doctor"])

    assert "does not run; it starts with the first request" in capsys.readouterr().out


def test_an_exposed_signing_key_is_found(state_dir, capsys):
    state_dir.mkdir()
    key = state_dir / "signing.key"
    key.write_bytes(b"x" * 32)
    key.chmod(0o644)

    assert doctor.main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "can be read by others" in told
    assert f"chmod 600 {key}" in told


def test_a_link_that_breaks_is_reported_and_the_others_still_checked(monkeypatch, capsys):
    def broken():
        raise OSError("disk on fire")

    broken.__name__ = "_card"
    monkeypatch.setattr(doctor, "_card", broken)

    assert doctor.main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "could not be checked: OSError: disk on fire" in told
    assert "service" in told


@pytest.mark.process
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_error(options):
    """`jupyter kai doctor | head -0`"""
    command = [sys.executable, "-m", "kai_jupyter.doctor", "doctor", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    process.stdout = None
    _, told = process.communicate(timeout=60)

    assert (process.returncode, told) == (0, "")


def test_status_without_a_service_is_a_sentence(capsys):
    assert doctor.main(["status"]) == 1
    assert "does not run" in capsys.readouterr().err


@pytest.mark.process
def test_the_service_and_its_requests_are_told(embedded, capsys):
    with embedded.client() as client:
        view = fill(client)
    assert isinstance(view.name, str)
    doctor.main(["doctor"])
    assert "2 simulated GPUs" in capsys.readouterr().out

    assert doctor.main(["status"]) == 0
    assert view.name in capsys.readouterr().out
    assert doctor.main(["status", "--json"]) == 0
    assert view.name in [v["name"] for v in json.loads(capsys.readouterr().out)]
