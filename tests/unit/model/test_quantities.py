"""Amounts as people write them, and what they read."""

from __future__ import annotations

import pytest

from scheduler_service.errors import RequestError
from scheduler_service.model import quantities


@pytest.mark.parametrize(
    ("text", "milli"), [("0.5", 500), (2, 2000), ("250m", 250), (0.1, 100), ("0.001", 1)]
)
def test_gpu_amounts_are_thousandths(text: str | float, milli: int) -> None:
    assert quantities.parse_milli_gpu(text) == milli


@pytest.mark.parametrize("text", ["half", "-1", "nan", "inf", "", "0.0005"])
def test_what_is_no_amount_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        quantities.parse_milli_gpu(text)

    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "amount"),
    [("8GiB", 8 << 30), ("8Gi", 8 << 30), ("16G", 16 * 10**9), ("500MB", 5 * 10**8), ("12", 12)],
)
def test_memory_is_bytes(text: str, amount: int) -> None:
    assert quantities.parse_bytes(text) == amount


def test_a_bare_number_of_device_memory_is_mib() -> None:
    assert quantities.parse_mib("2048") == 2048
    assert quantities.parse_mib("8GiB") == 8192
    assert quantities.parse_mib("1000001") == 1000001
    assert quantities.parse_mib("1500k") == 2  # rounded up


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(RequestError, match="'Q'"):
        quantities.parse_bytes("8Q")


@pytest.mark.parametrize(
    ("milli", "words"), [(500, "0.5 GPU"), (1000, "1 GPU"), (4000, "4 GPUs"), (1, "0.001 GPU")]
)
def test_gpu_amounts_read_as_people_say_them(milli: int, words: str) -> None:
    assert quantities.gpu_words(milli) == words


def test_large_amounts_take_the_largest_unit() -> None:
    assert quantities.bytes_words(8 << 30) == "8 GiB"
    assert quantities.bytes_words(1536 << 20) == "1.5 GiB"
    assert quantities.bytes_words(12) == "12 bytes"
    assert quantities.mib_words(512) == "512 MiB"
    assert quantities.cpu_words(1500) == "1.5 CPUs"
