"""Settings: flag over variable over file over default; a fault names its place."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from scheduler_service.errors import ConfigurationError
from scheduler_service.settings import table


def test_flag_over_variable_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "kai.yaml"
    file.write_text("port: 1\nidle_exit_s: 2\npayload_limit_mib: 3\n")
    environ = {"KAI_PORT": "10", "KAI_IDLE_EXIT_S": "20"}
    settings = table.load({"port": 100, "queues": None}, environ=environ, file=file)
    assert (settings.port, settings.idle_exit_s, settings.payload_limit_mib) == (100, 20, 3)
    assert settings.retention_days == table.Settings().retention_days


@pytest.mark.parametrize(
    ("flags", "environ", "text", "place"),
    [
        (
            {"port": "x"},
            {},
            "",
            "--port: 'x' is not a whole number. Write one from 0 to 65535. It sets: Port",
        ),
        (
            {},
            {"KAI_PORT": "70000"},
            "",
            "KAI_PORT: 70000 is too large. Write a whole number from 0 to",
        ),
        (
            {},
            {"KAI_EMBEDDED": "perhaps"},
            "",
            "KAI_EMBEDDED: 'perhaps' is neither yes nor no. Write",
        ),
        (
            {"backend": "cloud"},
            {},
            "",
            "--backend: 'cloud' is not known here. Write local or kubernetes.",
        ),
        (
            {},
            {},
            "retention_days: -1",
            "kai.yaml, retention_days: -1 is too small. Write a whole number",
        ),
        ({}, {}, "ports: 1", "kai.yaml, ports: there is no setting ports"),
        ({}, {}, "- port", "kai.yaml must be lines"),
        ({}, {}, "port: [", "kai.yaml is not valid YAML"),
    ],
)
def test_a_fault_names_its_place(
    tmp_path: Path, flags: dict, environ: dict, text: str, place: str
) -> None:
    file = tmp_path / "kai.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        table.load(flags, environ=environ, file=file)
    assert place in str(error.value)


WHOLE_NUMBERS = [
    item.name
    for item in fields(table.Settings)
    if isinstance(item.default, int) and item.default is not True and item.default is not False
]


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_what_is_no_number_is_told_with_what_to_write(name: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        table.load({}, environ={table.variable_of(name): "x"})
    told = str(error.value)
    assert re.match(
        rf"{table.variable_of(name)}: 'x' is not a whole number\. Write one from [01]\b", told
    )
    assert "literal" not in told


def test_the_file_is_looked_for_in_the_state_directory(tmp_path: Path) -> None:
    (tmp_path / "kai.yaml").write_text("port: 7\n")
    assert table.load({"state_dir": tmp_path}, environ={}).port == 7
    assert table.load({}, environ={"KAI_STATE_DIR": str(tmp_path)}).port == 7
    elsewhere = tmp_path / "other.yaml"
    elsewhere.write_text("port: 8\n")
    environ = {"KAI_STATE_DIR": str(tmp_path), "KAI_CONFIG": str(elsewhere)}
    assert table.load({}, environ=environ).port == 8


def test_every_setting_is_listed_with_help() -> None:
    lines = list(table.lines())
    assert len(lines) == len(table.Settings.__dataclass_fields__)
    assert all(line.help.endswith(".") for line in lines)
    assert ("--payload-limit-mib", "KAI_PAYLOAD_LIMIT_MIB", "64") in {
        (line.flag, line.variable, line.default) for line in lines
    }
