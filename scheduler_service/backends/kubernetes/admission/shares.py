"""How a share of a GPU may be asked for: KAI's rules V1 to V9 and the ones it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.pods import (
    asks_share,
    asks_whole_gpu,
    other_gpus,
    shared_place,
)
from scheduler_service.backends.kubernetes.admission.review import Object, annotations_of

_DECIMAL = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE = re.compile(r"\+?\d{1,18}", re.ASCII)
TRUE = "true"


def share_refusals(pod: Object, options: Options) -> Iterator[str]:
    """Yield what is wrong with the share that a pod asks for, a sentence each."""
    given = annotations_of(pod)
    if asks_share(pod):
        if not options.gpu_sharing:
            yield (
                "Sharing of GPUs is switched off in this cluster. Ask for whole GPUs with a "
                f"{names.GPU_RESOURCE} limit, or have it switched on (admission.gpuSharing in kai-config)."
            )
        yield from _mixed(pod, given)
        yield from _values(given)
        yield from _container(pod, given)
    else:
        yield from _alone(given)


def _mixed(pod: Object, given: Object) -> Iterator[str]:
    asked = names.GPU_FRACTION if names.GPU_FRACTION in given else names.GPU_MEMORY
    if names.GPU_FRACTION in given and names.GPU_MEMORY in given:
        yield (
            f"A share is asked for by {names.GPU_FRACTION} or by {names.GPU_MEMORY}, not by both. "
            "Take one of the annotations away."
        )
    if asks_whole_gpu(pod):
        yield (
            f"A pod asks for whole GPUs or for a share, not for both: it has the annotation {asked} "
            f"and a {names.GPU_RESOURCE} limit. Take one of them away."
        )
    if others := other_gpus(pod):
        yield (
            f"The annotation {asked} can not stand beside {', '.join(others)}: a share is cut from a "
            "whole GPU. Take one of them away."
        )


def _values(given: Object) -> Iterator[str]:
    fraction = given.get(names.GPU_FRACTION)
    if fraction is not None and not _is_fraction(fraction):
        yield (
            f"{names.GPU_FRACTION} is '{fraction}', but must be a decimal number above 0 and below 1, "
            f"like 0.5. Whole GPUs are asked for with a {names.GPU_RESOURCE} limit."
        )
    memory = given.get(names.GPU_MEMORY)
    if memory is not None and not _is_count(memory):
        yield (
            f"{names.GPU_MEMORY} is '{memory}', but must be a whole number of MiB above 0, like 4096."
        )
    devices = given.get(names.GPU_FRACTION_DEVICES)
    if devices is not None and not _is_count(devices):
        yield (
            f"{names.GPU_FRACTION_DEVICES} is '{devices}', but must be a whole number above 0: on how "
            "many GPUs the share is wanted."
        )


def _container(pod: Object, given: Object) -> Iterator[str]:
    wanted = given.get(names.GPU_FRACTION_CONTAINER)
    if wanted is not None and shared_place(pod) is None:
        yield (
            f"{names.GPU_FRACTION_CONTAINER} names '{wanted}', but the pod has no such container. "
            "Name one of its containers, or leave it out: then the first one gets the share."
        )


def _alone(given: Object) -> Iterator[str]:
    """What makes no sense without a share."""
    if str(given.get(names.MPS, "")).lower() == TRUE:
        yield (
            f"mps is for pods that share a GPU. Add {names.GPU_FRACTION} or {names.GPU_MEMORY}, or take "
            "the annotation away."
        )
    if names.GPU_FRACTION_DEVICES in given:
        yield (
            f"{names.GPU_FRACTION_DEVICES} is for pods that share a GPU. Add {names.GPU_FRACTION} or "
            f"{names.GPU_MEMORY}, or take the annotation away."
        )


def _is_fraction(value: Any) -> bool:
    """A number both for people and for Kubernetes: so neither NaN nor hexadecimal."""
    return isinstance(value, str) and _DECIMAL.fullmatch(value) is not None and 0 < float(value) < 1


def _is_count(value: Any) -> bool:
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None and int(value) > 0
