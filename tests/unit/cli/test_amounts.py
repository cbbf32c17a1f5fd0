"""Durations and whole numbers as people write them."""

from __future__ import annotations

import click
import pytest

from scheduler_service.cli.amounts import DURATION, Whole
from scheduler_service.cli.commands import COMMANDS, kai
from scheduler_service.cli.output import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("30min", 1800), ("1.5h", 5400), ("2d", 172_800)],
)
def test_a_duration_is_read_in_its_unit(text, seconds):
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 weeks", "h", "nan", "1e9d", "99999d"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(click.BadParameter, match="90s, 30m, 2h or 1d"):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_a_duration_is_told_in_its_largest_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (Whole(), "abc", "'abc' is not a whole number. Write one like 4."),
        (Whole(), "1.5", "'1.5' is not a whole number. Write one like 4."),
        (Whole(min=1), "abc", "'abc' is not a whole number. Write one from 1 on."),
        (Whole(min=1), "0", "0 is too small. Write a whole number from 1 on."),
        (Whole(0, 65535), "70000", "70000 is too large. Write a whole number from 0 to 65535."),
        (Whole(max=3), "4", "4 is too large. Write a whole number up to 3."),
    ],
)
def test_what_is_no_whole_number_is_told_with_what_to_write(
    kind: Whole, text: str, told: str
) -> None:
    with pytest.raises(click.BadParameter) as error:
        kind.convert(text, None, None)
    assert error.value.message == told


def all_options() -> list[click.Parameter]:
    commands = (kai.get_command(click.Context(kai), name) for name in COMMANDS)
    return [option for command in commands if command for option in command.params]


def test_no_option_takes_whole_numbers_in_another_way() -> None:
    kinds = [option.type for option in all_options()]
    assert not any(kind is click.INT or type(kind) is click.IntRange for kind in kinds)
    assert any(isinstance(kind, Whole) for kind in kinds)
