"""What is told once when something happens to a group, and what its owner can do next. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.events import Notice
from scheduler_service.wire.pod_group import LEASE_KINDS, ActionView, Submit
from scheduler_service.words.group import Standing, state_of, words_of
from scheduler_service.words.units import amount_of, duration_words, request_text

NoticeKind = Literal[
    "granted", "refused", "evicted", "ending", "failed", "finished", "idle", "lead"
]
EXTEND_S = 3600
ON_CPU = "Start on CPU instead"
"""What becomes of a kernel whose request is withdrawn while it waits."""


def notices(before: GroupRecord, after: GroupRecord, now: int) -> Iterator[Notice]:
    """Yield what to tell about the step from `before` to `after`."""
    what = _what(after)
    said = words_of(after, Standing(), now)
    if before.granted_at is None and after.granted_at is not None:
        nodes = sorted({pod.node for pod in after.pods if pod.node})
        yield _notice(after, "granted", f"{what} granted on {', '.join(nodes)}.", now)
    if before.ending is None and after.ending is not None and after.ending.how == "evicted":
        yield _notice(after, "evicted", f"{what}: {after.ending.text}", now)
    if not before.is_over and after.is_over:
        state = state_of(after)
        if state == "Failed":
            yield _notice(after, "failed", f"{what}: {said.headline}", now)
        elif state == "Succeeded" and after.ask.kind in {"gang", "batch"}:
            yield _notice(after, "finished", f"{what}: {said.headline}", now)
        elif after.ending is not None and after.ending.how == "waited_too_long":
            yield _notice(after, "refused", f"{what}: {said.headline}", now)


def ends_soon(record: GroupRecord, now: int) -> Notice:
    """Return the notice that a lease ends soon."""
    left = duration_words((record.expires_at or now) - now)
    return _notice(record, "ending", f"{_what(record)} ends in {left}.", now)


def by_lead(record: GroupRecord, text: str, now: int) -> Notice:
    """Return the notice of what the queue's lead did, with the reason."""
    return _notice(record, "lead", f"{_what(record)}. {text}", now)


def _what(record: GroupRecord) -> str:
    if record.ask.kind in LEASE_KINDS:
        return amount_of(record.request)
    return f"{record.name} ({request_text(record.request, len(record.pods))})"


def _notice(record: GroupRecord, kind: NoticeKind, text: str, now: int) -> Notice:
    return Notice(at=now, kind=kind, namespace=record.namespace, name=record.name, text=text)


def actions_of(record: GroupRecord) -> tuple[ActionView, ...]:
    """Return what the owner can do next."""
    state = state_of(record)
    if state == "Waiting":
        cancel = ON_CPU if record.ask.kind == "kernel" else "Cancel"
        return (ActionView(id="why", label="Why"), ActionView(id="cancel", label=cancel))
    if state in {"Starting", "Running"}:
        return _meanwhile(record)
    return () if state == "Stopping" else tuple(_afterwards(record))


def _meanwhile(record: GroupRecord) -> tuple[ActionView, ...]:
    """Return what can be done while it holds a place."""
    if record.ask.kind in LEASE_KINDS:
        release = ActionView(id="release", label="Release", code="%gpu release")
        if record.expires_at is None and record.ask.lease_s is None:
            return (release,)  # what has no end can not last longer
        return (release, ActionView(id="extend", label="Extend 1 h", code="%gpu extend 1h"))
    if record.is_external:
        return (ActionView(id="release", label="Release"),)  # a hub's server goes on without it
    return (ActionView(id="logs", label="Logs"), ActionView(id="cancel", label="Stop"))


def _afterwards(record: GroupRecord) -> Iterator[ActionView]:
    """Yield what can be done when it is over."""
    ask = record.ask
    if any(pod.result_signature for pod in record.pods):
        code = f'gang("{record.name}").result()'
        yield ActionView(id="result", label="Result", code=code)
    if ask.kind in {"gang", "batch"} and record.granted_at is not None:
        yield ActionView(id="logs", label="Logs")
    if ask.kind == "server" and record.is_external:  # only the hub can start one
        return
    if ask.kind == "kernel":  # only the page can start a kernel
        yield ActionView(id="ask_again", label="Ask again")
        return
    again = replace(ask, queue=record.queue)
    yield ActionView(id="ask_again", label="Ask again", submit=again, code=_lease_code(ask))


def _lease_code(ask: Submit) -> str | None:
    if ask.kind != "lease":
        return None
    return f"%gpu --memory {ask.gpu_memory}" if ask.gpu is None else f"%gpu {ask.gpu}"
