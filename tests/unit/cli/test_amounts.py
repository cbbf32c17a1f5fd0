"""Durations as people write them."""

from __future__ import annotations

import click
import pytest

from scheduler_service.cli.amounts import DURATION
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
