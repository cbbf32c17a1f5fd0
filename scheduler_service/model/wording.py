"""How reasons are built and how amounts are worded in them."""

from __future__ import annotations

import msgspec

from scheduler_service.model import quantities

TWO_MINUTES = 120


def amount_words(resource: str, amount: int) -> str:
    """Return an amount of a resource with its unit."""
    words = {
        "gpu": quantities.gpu_words,
        "cpu": quantities.cpu_words,
        "memory": quantities.bytes_words,
        "gpu_memory": quantities.mib_words,
    }
    if resource in words:
        return words[resource](amount)
    if resource == "pods":
        return f"{amount} pod slot{'' if amount == 1 else 's'}"
    return str(amount)


def node_amount_words(resource: str, amount: int, detail: str = "") -> str:
    """Return an amount and what it is of, where that is not plain from the unit."""
    words = amount_words(resource, amount)
    if resource in {"memory", "gpu_memory"}:
        return f"{words} of {'GPU memory' if resource == 'gpu_memory' else 'memory'}"
    if resource == "devices":
        return f"{amount} GPUs with {detail} free each"
    return f"{words} × {detail}" if detail else words


def snake(name: str) -> str:
    """Return "over_limit" for "OverLimit"."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def seconds_words(ms: int) -> str:
    """Return "45 s" or "3 min", rounded up."""
    seconds = max(0, -(-ms // 1000))
    return f"{seconds} s" if seconds < TWO_MINUTES else f"{-(-seconds // 60)} min"


class BaseReason(msgspec.Struct, frozen=True, gc=False, tag=snake, tag_field="code"):
    """The tag `code` travels with every reason; `str()` of one is its sentence."""
