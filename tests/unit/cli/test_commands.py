"""The table of commands: complete, importable, and light."""

from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from scheduler_service.cli import commands
from scheduler_service.settings.table import lines

HEAVY = {"fastapi", "uvicorn", "numpy", "httpx", "rich", "yaml", "pydantic"}


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_a_command_of_the_table_is_there_and_helps(name):
    module, _, attribute = commands.COMMANDS[name][0].partition(":")
    command = getattr(importlib.import_module(f"scheduler_service.cli.{module}"), attribute)
    assert isinstance(command, click.Command)
    assert command.help
    assert "--help" in command.get_help(click.Context(command, info_name=name))


def test_serve_lists_every_setting():
    from scheduler_service.cli.serve import serve

    text = serve.get_help(click.Context(serve, max_content_width=200))
    missing = [line.name for line in lines() if line.flag not in text or line.variable not in text]
    assert missing == []


@pytest.mark.process
def test_asking_for_help_imports_nothing_heavy():
    """A command line that takes a second to say its name is not used."""
    code = (
        "import sys\n"
        "from scheduler_service.cli.commands import kai\n"
        "kai.main(['--help'], standalone_mode=False)\n"
        "print('LOADED', *sorted(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(answer.stdout.rpartition("LOADED")[2].split())
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("more", [[], ["--json"], ["--help"]], ids=" ".join)
def test_who_looks_for_the_doctor_here_is_told_where_it_is(more):
    answer = CliRunner().invoke(commands.kai, ["doctor", *more])
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("The doctor is `jupyter kai doctor`")


def test_what_is_elsewhere_is_no_command_here():
    assert commands.ELSEWHERE.keys() & commands.COMMANDS.keys() == set()


def test_every_ending_is_documented():
    from scheduler_service.cli import endings

    codes = [v for name, v in vars(endings).items() if name.isupper() and isinstance(v, int)]
    assert all(f"\n  {code}" in commands.EXIT_CODES for code in codes)


@pytest.mark.parametrize("command", ["binder", "agent --node n"])
@pytest.mark.process
def test_what_runs_in_a_cluster_says_which_part_is_not_installed(command, tmp_path):
    code = (
        "import sys\n"
        "sys.modules['aiohttp'] = None\n"
        "from scheduler_service.cli.commands import kai\n"
        "kai.main(sys.argv[1:])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, *command.split()], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert "pip install 'kai-jupyter[kubernetes]'" in answer.stderr
    assert "Traceback" not in answer.stderr
