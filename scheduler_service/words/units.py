"""Amounts, times and durations as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler_service.model import quantities
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, GpuShare, WholeGpus
from scheduler_service.model.pod import PodRequest

WHOLE = 1000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
HOUR_MINUTES = 60
DAY_HOURS = 24
SMALLEST_HOURS = 0.1
"""Less is told in minutes."""


def gpu_text(gpu: GpuRequest | None) -> str:
    """Return "0.5 GPU", "2 × 0.5 GPU", "8 GiB of GPU memory" or "CPU only"."""
    if gpu is None:
        return "CPU only"
    if isinstance(gpu, WholeGpus):
        return quantities.gpu_words(gpu.count * WHOLE)
    if isinstance(gpu, FractionOfGpu):
        return _times(gpu.devices, quantities.gpu_words(gpu.milli))
    if isinstance(gpu, GpuMemory):
        return _times(gpu.devices, f"{quantities.mib_words(gpu.mib)} of GPU memory")
    return " + ".join(f"{count} × {profile}" for profile, count in gpu.profiles)


def _times(devices: int, text: str) -> str:
    return text if devices == 1 else f"{devices} × {text}"


def amount_of(request: PodRequest) -> str:
    """Return what one pod asks for, in words."""
    if request.gpu is None and request.milli_cpu:
        return quantities.cpu_words(request.milli_cpu)
    return gpu_text(request.gpu)


def request_text(request: PodRequest, workers: int) -> str:
    """Return what the whole group asks for: "8 workers × 0.5 GPU"."""
    amount = amount_of(request)
    return amount if workers == 1 else f"{workers} workers × {amount}"


def share_words(devices: Sequence[GpuShare]) -> str:
    """Return the GPU memory that goes with these shares, "" where it is not known."""
    mib = sum(share.memory_mib for share in devices)
    return quantities.mib_words(mib) if mib else ""


def local(at: int) -> datetime:
    """Return the moment in this machine's time zone."""
    return datetime.fromtimestamp(at / 1000).astimezone()


def clock_words(at: int, now: int | None = None, *, seconds: bool = False) -> str:
    """Return "14:00", or "2 Dec 14:00" where it is another day than `now`."""
    moment = local(at)
    text = moment.strftime("%H:%M:%S" if seconds else "%H:%M")
    if now is None or local(now).date() == moment.date():
        return text
    return f"{moment.day} {moment.strftime('%b')} {text}"


def duration_words(ms: int) -> str:
    """Return "45 s", "12 min", "2 h 10 min" or "3 d 4 h"; rounded to the nearest of its unit."""
    if ms < 2 * MINUTE_MS:
        return f"{max(0, round(ms / 1000))} s"
    minutes = round(ms / MINUTE_MS)
    if minutes < HOUR_MINUTES:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, HOUR_MINUTES)
    if hours < DAY_HOURS:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, DAY_HOURS)
    return f"{days} d {hours} h" if hours else f"{days} d"


def range_words(earliest_ms: int, likely_ms: int, latest_ms: int) -> str:
    """Return "about 6 min (4 to 11)"; the unit is said once where it is the same."""
    low, mid, high = (duration_words(ms) for ms in (earliest_ms, likely_ms, latest_ms))
    if low == high:
        return f"about {mid}"
    low_number, _, low_unit = low.partition(" ")
    high_number, _, high_unit = high.partition(" ")
    mid_unit = mid.partition(" ")[2]
    if low_unit == high_unit == mid_unit:
        return f"about {mid} ({low_number} to {high_number})"
    return f"about {mid} ({low} to {high})"


def gpu_hours(gpu_ms: int) -> str:
    """Return "2.4 GPU-hours" for GPU-milliseconds; small amounts in minutes."""
    hours = gpu_ms / HOUR_MS
    if hours >= SMALLEST_HOURS:
        return f"{hours:.1f} GPU-hours"
    return f"{gpu_ms / MINUTE_MS:.1f} GPU-minutes"
