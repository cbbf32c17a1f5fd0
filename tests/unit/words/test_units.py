"""Amounts, times and ranges in words."""

from __future__ import annotations

import pytest

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, Mig, WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.words import units

MINUTE = 60_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (45_000, "45 s"),
        (119_000, "119 s"),
        (2 * MINUTE, "2 min"),
        (59 * MINUTE, "59 min"),
        (60 * MINUTE, "1 h"),
        (130 * MINUTE, "2 h 10 min"),
        (24 * 60 * MINUTE, "1 d"),
        (28 * 60 * MINUTE, "1 d 4 h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert units.duration_words(ms) == text


@pytest.mark.parametrize(
    ("early", "likely", "late", "text"),
    [
        (4, 6, 11, "about 6 min (4 to 11)"),
        (6, 6, 6, "about 6 min"),
        (1, 6, 11, "about 6 min (60 s to 11 min)"),
        (45, 55, 90, "about 55 min (45 min to 1 h 30 min)"),
    ],
)
def test_ranges_say_a_common_unit_once(early: int, likely: int, late: int, text: str) -> None:
    assert units.range_words(early * MINUTE, likely * MINUTE, late * MINUTE) == text


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        (None, "CPU only"),
        (WholeGpus(1), "1 GPU"),
        (WholeGpus(4), "4 GPUs"),
        (FractionOfGpu(500), "0.5 GPU"),
        (FractionOfGpu(250, 2), "2 × 0.25 GPU"),
        (GpuMemory(8192), "8 GiB of GPU memory"),
        (Mig((("1g.10gb", 2),)), "2 × 1g.10gb"),
    ],
)
def test_amounts(gpu: object, text: str) -> None:
    assert units.gpu_text(gpu) == text  # type: ignore[arg-type]


def test_groups_and_shares() -> None:
    assert units.request_text(PodRequest(gpu=FractionOfGpu(500)), 8) == "8 workers × 0.5 GPU"
    assert units.request_text(PodRequest(milli_cpu=2000), 1) == "2 CPUs"
    assert units.share_words((GpuShare("a", 500, 12288),)) == "12 GiB"
    assert units.share_words((GpuShare("a", 500),)) == ""


def test_gpu_hours() -> None:
    assert units.gpu_hours(int(2.4 * 60 * MINUTE)) == "2.4 GPU-hours"
    assert units.gpu_hours(MINUTE) == "1.0 GPU-minutes"


def test_another_day_is_named() -> None:
    day = 24 * 60 * MINUTE
    at = 1_900_000_000_000
    assert units.clock_words(at, at) == units.clock_words(at)
    assert units.clock_words(at + day, at).endswith(units.clock_words(at + day))
    assert len(units.clock_words(at + day, at).split()) == 3
