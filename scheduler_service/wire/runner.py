"""The runner's protocol: claim, beat, report, orders; payload down, result and log chunks up (`/api/v1/runner/…`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from scheduler_service.wire.pod_group import DeviceShare, Kind, Process, Progress, ResultItem, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPod:
    """A pod that the runner found running (or ended) from its supervisor's files, after a restart of either side."""

    incarnation: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """`POST /runner/claim`: give me what was granted to those I run for and nobody runs yet.

    `held` is what I already run.
    """

    runner: str
    host: str
    held: tuple[HeldPod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Start (or, with `process`, watch) this pod. Everything but `work` and `signature` is the service's."""

    incarnation: str
    namespace: str
    group: str
    pod: str
    kind: Kind
    rank: int
    workers: int
    node: str
    devices: tuple[DeviceShare, ...]
    fraction_milli: int
    share_mib: int | None
    cpu_milli: int
    memory_bytes: int
    grace_s: int
    token: str
    """For this incarnation's own routes only (payload, result, logs)."""
    work: Work | None = None
    signature: str | None = None
    process: Process | None = None
    seal: str = ""
    """What the service's books say of this pod, signed by the service: only it can read it (`Proof`).

    Empty in the order of an older service.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """The orders, whole groups at a time; `unknown` are held incarnations that the books do not know.

    The runner proves these (`ProofRequest`), and ends what stays unknown.
    """

    starts: tuple[StartOrder, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A pod that the service did not know, with the seal of its order. Without `pid` no process of it runs yet."""

    incarnation: str
    pod: str = ""
    """namespace/pod, to tell of it; "" where its order is lost."""
    seal: str = ""
    pid: int | None = None
    start_ticks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """`POST /runner/prove`: your books do not know these, and here is what you wrote of them. One group at a time."""

    runner: str
    pods: tuple[Proof, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofAnswer:
    """What is not named is in the books (again). `unknown`: end them; `lost`: those of them that no book tells of."""

    unknown: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Nobody can look them up any more, so the runner keeps their folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Ask this pod to end: SIGTERM, `grace_s`, then SIGKILL to its whole group. Repeated until an end is reported."""

    incarnation: str
    grace_s: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """`GET /runner/orders?runner=R&wait_s=20` (long poll). `claim` True = something was granted: claim it."""

    claim: bool = False
    stops: tuple[StopOrder, ...] = ()
    exit: bool = False
    """The service ends: let go of the service, leave the pods alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBeat:
    """Life of one pod. `holds_device` None = cannot be told."""

    incarnation: str
    progress: Progress | None = None
    holds_device: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """`POST /runner/beat`, at least every 10 s."""

    runner: str
    pods: tuple[PodBeat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a payload's worker said of its exception. `cell_line` counts from 1 in the cell that was sent."""

    message: str
    traceback: str
    cell_line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`POST /runner/report`: started or ended, once each an incarnation; a repeat changes nothing.

    A gang that starts again on other ports reports ``started`` with the new processes and the reason ``port_clash``.
    """

    incarnation: str
    kind: Literal["started", "ended"]
    at: int
    pid: int | None = None
    start_ticks: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason_code: str | None = None
    """E.g. ``command_not_found``, ``unsigned``, ``log_disk_full``, ``port_clash``, ``out_of_memory``."""
    reason_text: str = ""
    failure: Failure | None = None
    results: tuple[ResultItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a pod's output. `seq` is dense a pod, from 0; `at` when the runner read it."""

    seq: int
    at: int
    rank: int
    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """`POST /runner/pods/{incarnation}/logs`: lines in order; what was stored before is ignored by `seq`."""

    lines: tuple[LogLine, ...] = ()
    dropped: int = 0
    """Lines that could not be kept (disk full, too fast), told in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """`GET /pod-groups/…/logs?rank=&after=&tail=`: lines of all ranks in order of arrival; `next` resumes."""

    lines: tuple[LogLine, ...] = ()
    next: int = 0
    dropped: int = 0
    ended: bool = False
    facts: dict[str, int] = field(default_factory=dict)
