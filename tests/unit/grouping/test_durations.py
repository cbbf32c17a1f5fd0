"""Times as people write them into annotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.grouping.durations import duration_ms, duration_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        (".5s", 500),
        ("-1s", -1000),
        ("0", 0),
        ("300ms", 300),
        ("1500us", 1),
        ("+2m", 120_000),
    ],
)
def test_time_is_read(text: str, ms: int) -> None:
    """The spellings of the Go library that KAI reads with."""
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "soon", "90", "s", "1d", "1 h", "--1s", "1s\n", "٩s", "9" * 99]
)
def test_what_is_no_time_is_none(text: str) -> None:
    """Days, bare numbers and words are none."""
    assert duration_ms(text) is None


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_written_time_is_read_back(ms: int) -> None:
    """What we write into the group, we and KAI read again."""
    assert duration_ms(duration_text(ms)) == ms
