"""From the amounts of a request to what a pod asks of Kubernetes: resources, and KAI's annotations for shares. Pure."""

from __future__ import annotations

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.errors import RequestError
from scheduler_service.model import quantities
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuRequest, WholeGpus
from scheduler_service.wire.pod_group import Submit

WHOLE = 1000


def gpu_of(ask: Submit) -> GpuRequest | None:
    """Return the GPUs of each pod; None is CPU only. Raises a refusal for what no device can give."""
    if ask.gpu is not None and ask.gpu_memory is not None:
        raise _bad("One of GPU and GPU memory follows from the other.", "Leave one of them out.")
    if ask.devices < 1:
        raise _bad(f"{ask.devices} devices are none.", "Ask for 1 or more.")
    try:
        if ask.gpu_memory is not None:
            mib = quantities.parse_mib(ask.gpu_memory)
            return GpuMemory(_some(mib, "GPU memory"), ask.devices)
        milli = None if ask.gpu is None else quantities.parse_milli_gpu(ask.gpu)
    except (RequestError, ArithmeticError) as error:
        raise _bad(str(error), "Write it like 0.5, 2 or 8GiB.") from error
    if milli is None:
        return None
    if milli < WHOLE:
        return FractionOfGpu(_some(milli, "GPU"), ask.devices)
    if milli % WHOLE or ask.devices != 1:
        raise _bad(
            f"{quantities.gpu_words(milli)} on {ask.devices} devices can not be given: "
            "only amounts below 1 are shares.",
            "Ask for a part below 1, like 0.5, or for whole GPUs, like 2.",
        )
    return WholeGpus(milli // WHOLE)


def limits_of(
    gpu: GpuRequest | None, *, cpu: str | float | None, memory: str | None
) -> dict[str, str]:
    """Return what a container asks for; requests and limits are the same."""
    found: dict[str, str] = {}
    try:
        if cpu is not None:
            found["cpu"] = f"{quantities.parse_milli_cpu(cpu)}m"
        if memory is not None:
            found["memory"] = str(quantities.parse_bytes(memory))
    except (RequestError, ArithmeticError) as error:
        raise _bad(str(error), "Write CPUs like 2 or 500m, and memory like 8GiB.") from error
    if isinstance(gpu, WholeGpus):
        found[names.GPU_RESOURCE] = str(gpu.count)
    return found


def share_of(gpu: GpuRequest | None) -> dict[str, str]:
    """Return the annotations that ask for a share of a GPU."""
    if isinstance(gpu, FractionOfGpu):
        found = {names.GPU_FRACTION: f"{gpu.milli / WHOLE:g}"}
    elif isinstance(gpu, GpuMemory):
        found = {names.GPU_MEMORY: str(gpu.mib)}
    else:
        return {}
    return found | ({names.GPU_FRACTION_DEVICES: str(gpu.devices)} if gpu.devices > 1 else {})


def _some(amount: int, what: str) -> int:
    if amount <= 0:
        raise _bad(f"0 of {what} is nothing to wait for.", "Leave the amount out for CPU only.")
    return amount


def _bad(detail: str, hint: str) -> Exception:
    return refusal("bad_amount", detail, hint)
