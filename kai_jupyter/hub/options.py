"""What a person can choose at the start page, and what they chose. Pure.

Rule: a choice is always one of those that the hub's owner offers; whoever asks by REST is held to the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kai_jupyter.errors import UsageError
from scheduler_service.wire.pod_group import Origin, Process, Submit

CPU = "cpu"
OTHER = "memory"
USUAL, YIELDING = "usual", "yields"
PRIORITIES: Mapping[str, str] = {
    USUAL: "Keep it until I stop",
    YIELDING: "May be taken back, for a sooner start",
}
GRACE_S = 60
"""A server that loses its GPU has so long to save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One card of the start page: an amount of GPU and what goes with it."""

    id: str
    gpu: str = ""
    """As in `%gpu`: "0.5", "2"; empty: no GPU."""
    cpu: float | None = None
    memory: str | None = None
    """Main memory, such as 16GiB. None: not limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named environment: an image in a cluster; on one machine a command and variables."""

    name: str
    title: str = ""
    image: str = ""
    image_gb: float | None = None
    cmd: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


SHARES = (
    Share(id=CPU),
    Share(id="0.25", gpu="0.25"),
    Share(id="0.5", gpu="0.5"),
    Share(id="1", gpu="1"),
    Share(id="2", gpu="2"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Everything that can be chosen on this hub."""

    shares: tuple[Share, ...] = SHARES
    profiles: tuple[Profile, ...] = ()
    takes_memory: bool = True
    """Whether GPU memory may be asked for instead of a share."""

    def share(self, name: str) -> Share | None:
        """Return the share of that name; GPU memory takes the rest from the smallest GPU share."""
        if name == OTHER and self.takes_memory:
            smallest = next((share for share in self.shares if share.gpu), Share(id=OTHER))
            return Share(id=OTHER, cpu=smallest.cpu, memory=smallest.memory)
        return next((share for share in self.shares if share.id == name), None)

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    @property
    def has_cpu(self) -> bool:
        """Whether a server without a GPU is offered."""
        return any(share.id == CPU for share in self.shares)


def offer_of(shares: Sequence[Any], profiles: Sequence[Any], *, takes_memory: bool) -> Offer:
    """Return the offer that a configuration describes. A share may be just its amount: "0.5"."""
    return Offer(
        shares=tuple(_share(item) for item in shares) or SHARES,
        profiles=tuple(Profile(**{**item, "cmd": tuple(item.get("cmd", ()))}) for item in profiles),
        takes_memory=takes_memory,
    )


def _share(item: Any) -> Share:
    if isinstance(item, Mapping):
        gpu = str(item.get("gpu", ""))
        name = str(item.get("id") or gpu or CPU)
        return Share(id=name, gpu=gpu, cpu=item.get("cpu"), memory=item.get("memory"))
    text = str(item)
    return Share(id=CPU) if text == CPU else Share(id=text, gpu=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a person chose. `queue` empty: their only one."""

    share: str = CPU
    gpu_memory: str = ""
    queue: str = ""
    priority: str = USUAL
    profile: str = ""

    @property
    def wants_gpu(self) -> bool:
        """Whether a GPU is asked for."""
        return self.share != CPU

    def as_options(self) -> dict[str, str]:
        """Return what JupyterHub keeps as the person's last choice."""
        return {name: value for name, value in asdict(self).items() if value}


NAMES = tuple(Chosen.__dataclass_fields__)


def chosen_in(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a posted form or query, whose values are lists; fields of others are left out."""
    found: dict[str, str] = {}
    for name in NAMES:
        value = form.get(name)
        text = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(text, str) and text:
            found[name] = text
    return found


def understood(options: Mapping[str, Any], offer: Offer) -> Chosen:
    """Return what the options choose. Raises `UsageError`, in a sentence, for what this hub does not offer."""
    first = offer.shares[0].id
    chosen = Chosen(**{"share": first, **{n: str(options[n]) for n in NAMES if options.get(n)}})
    if offer.share(chosen.share) is None:
        known = ", ".join(share.id for share in offer.shares)
        raise UsageError(
            f"This hub does not start servers with {chosen.share!r}. Choose of: {known}."
        )
    if chosen.share == OTHER and not chosen.gpu_memory:
        raise UsageError("Say how much GPU memory the server needs, such as 8GiB.")
    if chosen.share == OTHER:
        memory_mib(chosen.gpu_memory)
    if chosen.priority not in PRIORITIES:
        raise UsageError(
            f"There is no priority {chosen.priority!r}. Choose of: {', '.join(PRIORITIES)}."
        )
    if chosen.profile and offer.profile(chosen.profile) is None:
        known = ", ".join(profile.name for profile in offer.profiles) or "none"
        raise UsageError(f"There is no environment {chosen.profile!r}. Choose of: {known}.")
    return chosen


def wanted(chosen: Chosen, offer: Offer, *, key: str, process: Process | None) -> Submit:
    """Return the request for devices behind a choice that wants a GPU.

    Its origin tells whose it is (`key`) and what was chosen, so that the same choice finds its place again.
    """
    share = offer.share(chosen.share) or Share(id=chosen.share)
    is_memory = chosen.share == OTHER
    return Submit(
        kind="server",
        queue=chosen.queue or None,
        gpu=None if is_memory else share.gpu,
        gpu_memory=chosen.gpu_memory if is_memory else None,
        cpu=share.cpu,
        memory=share.memory,
        preemptible=True if chosen.priority == YIELDING else None,
        grace_s=GRACE_S,
        process=process,
        origin=Origin(kernel_id=key, cell_id=_mark(chosen)),
    )


def _mark(chosen: Chosen) -> str:
    return " ".join([chosen.share, chosen.gpu_memory, chosen.priority])


def forecast_fields(chosen: Chosen, offer: Offer) -> dict[str, object]:
    """Return the fields of a forecast for the same request."""
    ask = wanted(chosen, offer, key="", process=None)
    fields: dict[str, object] = {
        "kind": "server",
        "queue": ask.queue,
        "gpu": ask.gpu,
        "gpu_memory": ask.gpu_memory,
        "cpu": ask.cpu,
        "memory": ask.memory,
        "preemptible": "true" if ask.preemptible else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def title_of(chosen: Chosen) -> str:
    """Return the amount in words: "0.5 GPU", "8GiB of GPU memory", "CPU"."""
    if not chosen.wants_gpu:
        return "CPU"
    if chosen.share == OTHER:
        return f"{chosen.gpu_memory} of GPU memory"
    return gpu_title(chosen.share)


def gpu_title(gpu: str) -> str:
    """Return "0.5 GPU", "1 GPU", "2 GPUs"."""
    try:
        many = float(gpu) > 1
    except ValueError:
        many = False
    return f"{gpu} {'GPUs' if many else 'GPU'}"


UNITS = {"": 1, "M": 1, "MIB": 1, "MI": 1, "MB": 1, "G": 1024, "GIB": 1024, "GI": 1024, "GB": 1024}


def memory_mib(text: str) -> int:
    """Return "8GiB" or "8192" in MiB. Raises `UsageError` for what is no amount."""
    digits = text.strip().rstrip("KMGTiBb ")
    unit = text.strip()[len(digits) :].strip().upper()
    try:
        amount = int(float(digits) * UNITS[unit])
    except (ValueError, KeyError):
        amount = 0
    if amount <= 0:
        raise UsageError(f"{text!r} is no amount of GPU memory. Write one such as 8GiB.")
    return amount


def extras_of(share: Share) -> str:
    """Return what goes with a share: "4 CPUs, 16 GiB memory"; empty where nothing is limited."""
    cpus = "" if share.cpu is None else f"{share.cpu:g} CPU{'' if share.cpu == 1 else 's'}"
    memory = "" if share.memory is None else f"{_spaced(share.memory)} memory"
    return ", ".join(part for part in (cpus, memory) if part)


def _spaced(amount: str) -> str:
    digits = amount.rstrip("KMGTiBb")
    return f"{digits} {amount[len(digits) :]}".strip()
