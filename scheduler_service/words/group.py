"""What people read of a pod group: its state, word, tone, icon, headline and detail. One table, every surface.

Rule: whole sentences of at most 90 characters, no machine words; reasons are worded by
`model.reasons.sentence`. Pure but for the local time zone. The words follow the mock-ups of the card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler_service.model import quantities, reasons
from scheduler_service.model.pod import PodState
from scheduler_service.model.reasons import Reason
from scheduler_service.store import life
from scheduler_service.store.records import GroupRecord, How, PodRecord
from scheduler_service.wire.pod_group import EtaView, GroupState, Progress, Tone
from scheduler_service.words.units import (
    amount_of,
    clock_words,
    duration_words,
    gpu_hours,
    share_words,
)

MOST = reasons.MAX_SENTENCE
WHOLE = 1000

TERMINAL: Mapping[How, GroupState] = {
    "succeeded": "Succeeded",
    "failed": "Failed",
    "start_failed": "Failed",
    "cancelled": "Cancelled",
    "released": "Succeeded",
    "time_over": "Succeeded",
    "waited_too_long": "Cancelled",
    "evicted": "Evicted",
}
"""How a group ended → its state. What is not over is derived from its pods in `state_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the last plan says of a waiting group, and what its workers say of themselves."""

    position: int | None = None
    waiting_in_queue: int | None = None
    overall: int | None = None
    eta: EtaView | None = None
    reason: Reason | None = None
    fitting: int | None = None
    progress: Mapping[int, Progress] | None = None
    idle_ms: int | None = None
    """How long the devices of a lease have done nothing, where it is measured and long enough to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one group at one moment."""

    word: str
    tone: Tone
    icon: str
    headline: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """Headline and detail, joined."""
        return f"{self.headline} {self.detail}".strip()


def state_of(record: GroupRecord) -> GroupState:
    """Return the group's state, from its pods and how it ended."""
    if record.ending is not None:
        return TERMINAL[record.ending.how] if record.is_over else "Stopping"
    states = {pod.state for pod in record.pods}
    if states & {PodState.BINDING, PodState.BOUND}:
        return "Starting"
    if states & {PodState.RUNNING, PodState.SUCCEEDED}:
        return "Running"
    return "Waiting" if PodState.RELEASING not in states else "Stopping"


def words_of(record: GroupRecord, standing: Standing, now: int) -> Words:
    """Return the words of a group."""
    state = state_of(record)
    if record.is_over and record.ending is not None:
        return _clipped(_ENDED[record.ending.how](record))
    if state == "Running" and record.ask.kind in {"lease", "kernel", "server"}:
        return _clipped(_granted(record, standing, now))
    return _clipped(_LIVE[state](record, standing, now))


def _clipped(words: Words) -> Words:
    return Words(
        word=words.word,
        tone=words.tone,
        icon=words.icon,
        headline=clipped(words.headline),
        detail=clipped(words.detail),
    )


def clipped(text: str) -> str:
    """Return the text, at most as long as a sentence may be."""
    return text if len(text) <= MOST else f"{text[: MOST - 1].rstrip()}…"


# -- while it waits ----------------------------------------------------------------------------
def _waiting(record: GroupRecord, standing: Standing, _now: int) -> Words:
    if standing.position is None and (held := _not_asking(record)):
        return Words(word="Waiting", tone="mute", icon="dots", headline=held)
    if standing.position is None:
        return Words(word="Checking", tone="mute", icon="dots", headline="Checking your quota.")
    reason = standing.reason
    detail = "" if reason is None else reasons.sentence(reason)
    if isinstance(reason, reasons.NeverFits):
        return Words(word="Cannot start", tone="stop", icon="octagon", headline=detail)
    eta = _eta_sentence(standing.eta)
    if len(record.pods) > 1 and standing.fitting is not None:
        needed = record.min_members
        headline = f"{standing.fitting} of {needed} workers fit. Starts when all {needed} do.{eta}"
        return Words(word="Waiting", tone="wait", icon="squares", headline=headline, detail=detail)
    of = max(standing.waiting_in_queue or 1, standing.position)
    headline = f"Position {standing.position} of {of}.{eta}"
    return Words(word="Waiting", tone="wait", icon="hourglass", headline=headline, detail=detail)


def _not_asking(record: GroupRecord) -> str:
    """Return why nothing of a group asks for a place yet, "" where something may."""
    if not record.pods:
        return "Its pods are not made yet."
    if all(pod.state is PodState.GATED for pod in record.pods):
        return "It is held back: its pods are gated or suspended."
    return ""


def _eta_sentence(eta: EtaView | None) -> str:
    if eta is None or eta.basis == "unknown":
        return " No time known yet."
    if eta.basis == "now":
        return " Starts now."
    return f" {eta.text[:1].upper()}{eta.text[1:]}."


def _starting(record: GroupRecord, _standing: Standing, _now: int) -> Words:
    started = sum(pod.started_at is not None for pod in record.pods)
    where = _where(record)
    headline = f"Starting on {where}."
    if len(record.pods) > 1:
        headline = f"{started} of {len(record.pods)} workers started on {where}."
    return Words(word="Starting", tone="run", icon="arrow", headline=headline)


# -- while it runs -----------------------------------------------------------------------------
def _granted(record: GroupRecord, standing: Standing, now: int) -> Words:
    line = _holding_line(record, now)
    if record.pods[0].gone_at is not None:
        who = "server" if record.ask.kind == "server" else "kernel"
        return Words(
            word="Restarting",
            tone="wait",
            icon="hourglass",
            headline=f"The {who} ended; its GPU waits for the restart.",
            detail=line,
        )
    if standing.idle_ms is not None:
        idle = duration_words(standing.idle_ms)
        since = clock_words(now - standing.idle_ms)
        return Words(
            word=f"Idle {idle}",
            tone="wait",
            icon="moon",
            headline=f"The GPU has done nothing since {since}.",
            detail=line,
        )
    waited = duration_words((record.granted_at or now) - record.created_at)
    detail = f"Queue {record.queue}, waited {waited}."
    return Words(word="Granted", tone="ok", icon="tick", headline=line, detail=detail)


def _holding_line(record: GroupRecord, now: int) -> str:
    until = "" if record.expires_at is None else f" until {clock_words(record.expires_at, now)}"
    return f"{amount_of(record.request)} on {_where(record)}{until}{_share_part(record)}"


def _share_part(record: GroupRecord) -> str:
    share = share_words(record.pods[0].devices)
    return f" ({share})" if share else ""


def _running(record: GroupRecord, standing: Standing, now: int) -> Words:
    workers = len(record.pods)
    running = sum(pod.state is PodState.RUNNING for pod in record.pods)
    since = clock_words(record.granted_at or now, now)
    if workers == 1:
        headline = f"Running on {_where(record)} since {since}."
    else:
        headline = f"{running} of {workers} workers run, since {since}."
    step = _step_part(standing.progress or {})
    return Words(
        word="Running",
        tone="run",
        icon="triangle",
        headline=f"{headline}{step}",
        detail=_slowest(standing),
    )


def _step_part(progress: Mapping[int, Progress]) -> str:
    if not progress:
        return ""
    first = progress[min(progress)]
    of = "" if first.total is None else f" of {first.total:,}"
    return f" Step {first.step:,}{of}."


def _slowest(standing: Standing) -> str:
    progress = standing.progress or {}
    if len(progress) <= 1:
        return ""
    steps = {rank: item.step for rank, item in progress.items()}
    slow = min(steps, key=lambda rank: (steps[rank], rank))
    behind = max(steps.values()) - steps[slow]
    return f"Worker {slow} is {behind} steps behind." if behind > 1 else ""


# -- while it leaves ---------------------------------------------------------------------------
def _stopping(record: GroupRecord, _standing: Standing, now: int) -> Words:
    ending = record.ending
    if ending is not None and ending.how in {"evicted", "time_over"}:
        left = max(0, ending.at + ending.grace_s * 1000 - now)
        return Words(
            word=f"Taken back in {duration_words(left)}",
            tone="stop",
            icon="bell",
            headline=ending.text or "Its time is over.",
            detail="Save now; the files stay.",
        )
    leaving = sum(pod.is_occupied for pod in record.pods)
    what = "It is asked to end" if len(record.pods) == 1 else f"{leaving} workers are asked to end"
    grace = record.ask.grace_s if ending is None else ending.grace_s
    return Words(
        word="Stopping", tone="run", icon="arrow", headline=f"{what}; it has {grace} s to save."
    )


# -- when it is over ---------------------------------------------------------------------------
def _used(record: GroupRecord) -> str:
    return f"{gpu_hours(record.used_gpu_ms)} used"


def _released(record: GroupRecord) -> Words:
    return Words(word="Released", tone="mute", icon="tick", headline=f"Released. {_used(record)}.")


def _time_over(record: GroupRecord) -> Words:
    at = clock_words(record.ended_at or 0)
    if record.ask.kind == "kernel":
        return Words(
            word="Ended",
            tone="stop",
            icon="cross",
            headline=f"Its time was over at {at}. Variables are gone; files are safe.",
            detail=f"{_used(record)}.",
        )
    return Words(
        word="Released",
        tone="mute",
        icon="tick",
        headline=f"Its time was over at {at}. {_used(record)}.",
    )


def _cancelled(record: GroupRecord) -> Words:
    used = _used(record) if record.used_gpu_ms else "It held no GPU"
    by = record.ending.by if record.ending and record.ending.by != record.owner else ""
    who = f" by {by}" if by else ""
    return Words(
        word="Cancelled",
        tone="stop" if by and record.ask.kind == "kernel" else "mute",
        icon="tick",
        headline=f"Cancelled{who}. {used}.",
        detail=_why_cancelled(record),
    )


def _why_cancelled(record: GroupRecord) -> str:
    """Return the reason that somebody else, or the service, gave."""
    ending = record.ending
    if ending is None or ending.by == record.owner:
        return ""
    return "" if ending.text == f"Cancelled by {ending.by}." else ending.text


def _waited_too_long(record: GroupRecord) -> Words:
    wait = duration_words((record.ask.max_wait_s or 0) * 1000)
    return Words(
        word="Withdrawn",
        tone="mute",
        icon="clock",
        headline=f"Not granted within {wait}; the request was withdrawn.",
    )


def _evicted(record: GroupRecord) -> Words:
    at = clock_words(record.ended_at or 0)
    what = "GPU" if record.request.gpu is not None else "place"
    return Words(
        word="Lost",
        tone="stop",
        icon="cross",
        headline=f"Your {what} was taken back at {at}. Variables are gone; files are safe.",
        detail=record.ending.text if record.ending else "",
    )


def _failed(record: GroupRecord) -> Words:
    first = life.first_failure(record)
    if first is None:
        text = record.ending.text if record.ending else ""
        return Words(word="Failed", tone="stop", icon="cross", headline=text or "It failed.")
    others = len(record.pods) - 1
    at = clock_words(first.ended_at or 0, seconds=True)
    if not others:
        headline = f"Failed at {at}."
    else:
        rest = "The other was" if others == 1 else f"The other {others} were"
        headline = f"Worker {first.rank} failed first, at {at}. {rest} stopped with it."
    return Words(
        word="Failed", tone="stop", icon="cross", headline=headline, detail=why_it_failed(first)
    )


def why_it_failed(pod: PodRecord) -> str:
    """Return why a pod failed, in one line: its own words, the runner's, or its exit code."""
    if pod.failure is not None and pod.failure.message:
        return pod.failure.message.strip().splitlines()[0]
    if pod.reason_text:
        return pod.reason_text
    if pod.reason_code in _FAULTS:
        return _FAULTS[pod.reason_code]
    if pod.signal is not None:
        return f"It was ended by {pod.signal}."
    return f"It ended with exit code {pod.exit_code}."


_FAULTS: Mapping[str, str] = {
    "runner_lost": "Its runner is gone and the process with it; ask again.",
    "process_gone": "Its process ended.",
    "unsigned": "Its runner refused it: it is not signed by its owner.",
    "out_of_memory": "The machine had no memory left for it.",
}


def _succeeded(record: GroupRecord) -> Words:
    at = clock_words(record.ended_at or 0)
    workers = len(record.pods)
    has_result = any(pod.results for pod in record.pods)
    who = "Finished" if workers == 1 else f"All {workers} workers finished"
    charge = sum(share.milli for pod in record.pods for share in pod.devices)
    freed = (
        f" {quantities.gpu_words(charge)} {'are' if charge > WHOLE else 'is'} released."
        if charge
        else ""
    )
    return Words(
        word="Result ready" if has_result else "Finished",
        tone="ok",
        icon="tick",
        headline=f"{who} at {at}.{freed}",
    )


def _where(record: GroupRecord) -> str:
    nodes = sorted({pod.node for pod in record.pods if pod.node is not None})
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


_LIVE: Mapping[GroupState, Callable[[GroupRecord, Standing, int], Words]] = {
    "Waiting": _waiting,
    "Starting": _starting,
    "Running": _running,
    "Stopping": _stopping,
}
_ENDED: Mapping[How, Callable[[GroupRecord], Words]] = {
    "succeeded": _succeeded,
    "failed": _failed,
    "start_failed": _failed,
    "cancelled": _cancelled,
    "released": _released,
    "time_over": _time_over,
    "waited_too_long": _waited_too_long,
    "evicted": _evicted,
}
