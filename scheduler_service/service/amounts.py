"""Turns the amounts that a person wrote into what a pod asks for, or refuses with a sentence. Pure."""

from __future__ import annotations

import math

from scheduler_service.errors import RequestError
from scheduler_service.model import quantities
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.service.refusals import refusal

WHOLE = 1000
MOST_DEVICES = 64
MOST_MILLI_GPU = 10**9
GPU_HINT = "Ask for a part below 1, like 0.5, or for whole GPUs, like 2."


def pod_request(
    *,
    gpu: str | float | None,
    gpu_memory: str | None,
    devices: int,
    cpu: str | float | None,
    memory: str | None,
) -> PodRequest:
    """Return what each pod asks for."""
    return PodRequest(
        milli_cpu=_cpu(cpu), memory_bytes=_memory(memory), gpu=gpu_request(gpu, gpu_memory, devices)
    )


def gpu_request(gpu: str | float | None, gpu_memory: str | None, devices: int) -> GpuRequest | None:
    """Return the GPU part of a request; None is CPU only."""
    if gpu is not None and gpu_memory is not None:
        raise refusal(
            "fraction_and_memory",
            f"You asked for {gpu} GPU and for {gpu_memory} of GPU memory; one follows from the other.",
            "Leave one of them out.",
        )
    if not 1 <= devices <= MOST_DEVICES:
        raise refusal(
            "bad_devices",
            f"{devices} devices is not between 1 and {MOST_DEVICES}.",
            "Ask for 1 or more.",
        )
    if gpu_memory is not None:
        return GpuMemory(_gpu_memory(gpu_memory), devices)
    if gpu is None:
        return None
    milli = _milli_gpu(gpu)
    if milli < WHOLE:
        return FractionOfGpu(milli, devices)
    if devices != 1:
        raise refusal(
            "bad_devices",
            f"{quantities.gpu_words(milli)} are whole devices already.",
            "Leave the number of devices out; it is for shares below 1.",
        )
    return WholeGpus(milli // WHOLE)


def _milli_gpu(gpu: str | float) -> int:
    if isinstance(gpu, bool) or (isinstance(gpu, float) and not math.isfinite(gpu)):
        raise refusal("bad_gpu_amount", f"{gpu} is no amount of GPU.", GPU_HINT)
    try:
        milli = quantities.parse_milli_gpu(gpu)
    except (RequestError, ArithmeticError) as error:
        why = str(error.what) if isinstance(error, RequestError) else f"{gpu} is no amount of GPU."
        raise refusal("bad_gpu_amount", why, GPU_HINT) from error
    if milli <= 0:
        raise refusal(
            "bad_gpu_amount",
            "0 GPU is nothing to wait for.",
            "Leave the amount out for CPU only, or ask for 0.25.",
        )
    if milli > MOST_MILLI_GPU or (milli > WHOLE and milli % WHOLE):
        whole = milli // WHOLE
        if milli > MOST_MILLI_GPU:
            raise refusal("bad_gpu_amount", f"{gpu} is more GPUs than there are.", "Ask for fewer.")
        raise refusal(
            "bad_gpu_amount",
            f"{quantities.gpu_words(milli)} can not be given: only amounts below 1 are shares.",
            f"Ask for {whole} or {whole + 1}.",
        )
    return milli


def _gpu_memory(text: str) -> int:
    hint = "Write it like 8GiB."
    try:
        mib = quantities.parse_mib(text)
    except (RequestError, ArithmeticError) as error:
        raise refusal("bad_gpu_memory", f"{text!r} is no amount of memory.", hint) from error
    if mib <= 0:
        raise refusal("bad_gpu_memory", "0 of GPU memory is nothing to wait for.", hint)
    return mib


def _cpu(cpu: str | float | None) -> int:
    if cpu is None:
        return 0
    try:
        return quantities.parse_milli_cpu(cpu)
    except (RequestError, ArithmeticError) as error:
        raise refusal(
            "bad_cpu", f"{cpu} is no amount of CPU.", "Write it like 2, 0.5 or 500m."
        ) from error


def _memory(memory: str | None) -> int:
    if memory is None:
        return 0
    try:
        return quantities.parse_bytes(memory)
    except (RequestError, ArithmeticError) as error:
        raise refusal(
            "bad_memory", f"{memory!r} is no amount of memory.", "Write it like 8GiB."
        ) from error
