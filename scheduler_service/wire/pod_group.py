"""A pod group on the wire: how it is asked for (`Submit`) and how it stands (`PodGroupView`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["lease", "gang", "kernel", "server", "batch"]
Workload = Literal["PyTorchJob", "TrainJob", "RayJob"]
WORKLOADS: dict[str, Workload | None] = {
    "job": None,
    "pytorchjob": "PyTorchJob",
    "rayjob": "RayJob",
    "trainjob": "TrainJob",
}
"""How people write them; "job" is what is made unasked: a pod, or a Job for several workers."""
GroupState = Literal[
    "Waiting",
    "Starting",
    "Running",
    "Stopping",
    "Suspended",
    "Succeeded",
    "Failed",
    "Cancelled",
    "Evicted",
]
PodState = Literal[
    "Pending",
    "Gated",
    "Pipelined",
    "Binding",
    "Bound",
    "Running",
    "Releasing",
    "Succeeded",
    "Failed",
]
Tone = Literal["mute", "wait", "run", "ok", "stop"]
ActionId = Literal[
    "cancel",
    "release",
    "extend",
    "why",
    "ask_again",
    "smaller",
    "switch_queue",
    "restart_kernel",
    "logs",
    "result",
]

LEASE_KINDS: frozenset[Kind] = frozenset({"lease", "kernel"})
"""Kinds that a process of the caller may hold: what `%gpu` took, and what a whole kernel was started with."""
PROCESS_KINDS: frozenset[Kind] = LEASE_KINDS | {"server"}
"""Kinds that a process may hold: the leases, and the notebook server that a hub starts for a person."""
TERMINAL_STATES: frozenset[GroupState] = frozenset({"Succeeded", "Failed", "Cancelled", "Evicted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a request was made, so that the page can show it beside its notebook."""

    notebook: str | None = None
    kernel_id: str | None = None
    cell_id: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the caller that itself holds the lease (`%gpu` on this machine: only the allocation is ours)."""

    pid: int
    start_ticks: int
    """Start time in clock ticks since boot (field 22 of ``/proc/<pid>/stat``; on macOS seconds).

    The pid plus the start is an identity.
    """
    cuda_initialised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What each pod runs. Signed as a whole by its owner; the runner refuses what is unsigned."""

    command: tuple[str, ...] = ()
    """argv; empty for a Python payload or an external lease. ``{payload}`` in it is the path of the payload's file."""
    payload_sha256: str | None = None
    """Digest of a payload uploaded before (`POST /api/v1/payloads`). Without a command our worker runs it."""
    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    """Interpreter for a payload: the path of the notebook's own, so that its packages are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAsk:
    """What can be chosen in a cluster only; a service of one machine refuses it."""

    namespace: str | None = None
    """Where the pods are made. None = the one that the cluster's rules give this person."""
    image: str | None = None
    """One that the rules allow. None = the profile's, else the rules' own."""
    profile: str | None = None
    """A named choice of the cluster's owner: image, nodes, amounts."""
    folder: str | None = None
    """The volume claim that becomes the pods' home. None = the person's own by the rules, "" = none."""
    workload: Workload | None = None
    """The kind of object to make instead of a pod or a Job, where its operator is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A request for devices.

    `gpu` and `gpu_memory` are what the person wrote; the service parses them and answers in words.
    """

    kind: Kind = "batch"
    name: str | None = None
    queue: str | None = None
    gpu: str | float | None = None
    """``"0.5"``, ``0.5``, ``2``; whole numbers from 1 are whole GPUs. None with no `gpu_memory` = CPU only."""
    gpu_memory: str | None = None
    """``"8GiB"`` or MiB as a plain number; excludes `gpu`."""
    devices: int = 1
    """How many different devices of one node, the stated part of each (fractions and memory only)."""
    cpu: str | float | None = None
    """Cores, ``"500m"`` or ``0.5``; None = not limited and not booked."""
    memory: str | None = None
    workers: int = 1
    min_members: int | None = None
    """None = all workers start together or none does."""
    priority: int | None = None
    """None = the kind's default (lease, kernel, server 100; gang, batch 50). Higher first, inside the queue."""
    preemptible: bool | None = None
    """None = preemptible below priority 100."""
    declared_run_s: int | None = None
    lease_s: int | None = None
    """`--for`: the lease ends so long after it was granted. None = no end."""
    max_wait_s: int | None = None
    """`--wait`: cancelled by the service if not granted by then. None = waits as long as it takes."""
    grace_s: int = 15
    work: Work | None = None
    signature: str | None = None
    """HMAC of `work` (see `signing`)."""
    process: Process | None = None
    origin: Origin = field(default_factory=Origin)
    cluster: ClusterAsk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """What every pod of the group asks for, parsed.

    `text` is the amount in words ("0.5 GPU", "8 GiB of GPU memory", "CPU only").
    """

    text: str
    whole: int = 0
    fraction_milli: int = 0
    memory_mib: int = 0
    devices: int = 1
    cpu_milli: int = 0
    memory_bytes: int = 0
    share_mib: int | None = None
    """GPU memory that goes with the share on this cluster's devices, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonView:
    """Why it waits, was refused, moved or evicted.

    `code` is stable; `text` is the service's sentence (at most 90 characters).
    """

    code: str
    text: str
    facts: dict[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtaView:
    """When it is expected to start. All None with basis "unknown" when nothing supports a number."""

    earliest_at: int | None = None
    likely_at: int | None = None
    latest_at: int | None = None
    basis: Literal["now", "declared", "observed", "mixed", "unknown"] = "unknown"
    text: str = "no time known"
    """ "now", "about 6 min (4 to 11)" or "no time known"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView:
    """One thing the person can do next, with its own waiting time. `submit` is the ready request behind an offer."""

    id: ActionId
    label: str
    eta_text: str | None = None
    submit: Submit | None = None
    code: str | None = None
    """The same action as a line of notebook code (`%gpu 0.25`), to copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """The part of one device that a pod holds."""

    id: str
    index: int
    model: str
    memory_mib: int | None
    milli: int
    share_mib: int | None
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a worker last said of itself (`kai_jupyter.report(step, total, loss=…)`)."""

    step: int
    total: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod (worker) of the group. `fits` says whether a waiting one would fit now (a gang starts when all do)."""

    name: str
    rank: int
    state: PodState
    incarnation: str | None = None
    node: str | None = None
    address: str | None = None
    """IP address in the cluster's network, of a caller's own pod that has one."""
    devices: tuple[DeviceShare, ...] = ()
    fits: bool | None = None
    started_at: int | None = None
    ended_at: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: ReasonView | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """The first failure of the group, as the worker told it. `cell_line` counts from 1 in the cell that was sent."""

    rank: int
    at: int
    message: str
    traceback: str = ""
    cell_line: int | None = None
    source: str | None = None
    """The cell's own lines, to show the failing one in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultItem:
    """A value that came back: its name, a short description and its size in bytes."""

    name: str
    text: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """Something that happened to the request, for people ("Position 3: two requests ahead started")."""

    at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupView:
    """A pod group as every surface shows it.

    `headline` and `detail` are made once, by the service; `sentence` joins them.
    """

    namespace: str
    name: str
    owner: str
    """"" where the queue hides names from this caller."""
    mine: bool
    kind: Kind
    queue: str
    request: RequestView
    workers: int
    min_members: int
    priority: int
    preemptible: bool
    state: GroupState
    word: str
    """The state in the words of the card: "Waiting", "Granted", "Idle 15 min", "Lost", "Released", "Refused", …"""
    tone: Tone
    icon: str
    """dots, hourglass, squares, moon, arrow, triangle, tick, bell, cross, octagon, plug, clock"""
    headline: str
    detail: str
    sentence: str
    rev: int
    created_at: int
    reason: ReasonView | None = None
    actions: tuple[ActionView, ...] = ()
    position: int | None = None
    waiting_in_queue: int | None = None
    overall: int | None = None
    eta: EtaView | None = None
    declared_run_s: int | None = None
    expires_at: int | None = None
    granted_at: int | None = None
    ended_at: int | None = None
    ended_by: Literal["owner", "other"] | None = None
    """Who ended or withdrew it, where a person did."""
    gpu_seconds: int = 0
    """GPU-seconds held so far."""
    origin: Origin = field(default_factory=Origin)
    pods: tuple[PodView, ...] = ()
    failure: FailureView | None = None
    results: tuple[ResultItem, ...] = ()
    notes: tuple[str, ...] = ()
    """Things that must be said: "simulated", "memory not enforced", "CPU not limited", "renamed to train-2"."""
    simulated: bool = False
    timeline: tuple[TimelineEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupList:
    """All groups the caller may see, newest first, at revision `rev`."""

    rev: int
    items: tuple[PodGroupView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Lengthen a lease by `by_s`; None = keep until released."""

    by_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End or withdraw a group. `grace_s` None = what it was submitted with; `reason` is kept in the audit."""

    grace_s: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Carry a lease over to `process`, the restarted kernel with the same `kernel_id`.

    Within 60 s of the old one's end.
    """

    process: Process
    kernel_id: str
    """Whose it is now."""
    to_kernel_id: str | None = None
    """The kernel that takes it over as its own: a notebook that moves to another kernel keeps its lease or place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadStored:
    """A payload as it rests: its digest and size."""

    sha256: str
    size: int
