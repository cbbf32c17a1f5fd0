"""Every request that can be made of the service, as a value: method, path, body and how its answer is read.

Rule: no network here. The blocking and the asynchronous client send the same values, so they cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from scheduler_service.wire.cluster import CallerView, CycleView, Health, NodeView, QueueView
from scheduler_service.wire.codec import decode, encode
from scheduler_service.wire.companion import CellAsk, CellView
from scheduler_service.wire.explain import ExplainView, ForecastView
from scheduler_service.wire.pod_group import (
    Cancel,
    Extend,
    Move,
    PayloadStored,
    PodGroupList,
    PodGroupView,
    Submit,
)
from scheduler_service.wire.runner import LogPage

T = TypeVar("T")

API = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. `read` turns a good answer's JSON into wire types; `patience_s` is how long an answer may take."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: dict[str, str] = field(default_factory=dict)
    json: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    patience_s: float = 30.0


def one(cls: type[T]) -> Callable[[Any], T]:
    """Return a reader of one wire value."""
    return lambda data: decode(cls, data)


def many(cls: type[T]) -> Callable[[Any], tuple[T, ...]]:
    """Return a reader of a list of wire values."""
    return lambda data: tuple(decode(cls, item) for item in data)


def group_path(namespace: str, name: str, *tail: str) -> str:
    """Return the path of a pod group; names are quoted, so none can leave its place."""
    return "/".join([f"{API}/pod-groups", quote(namespace, safe=""), quote(name, safe=""), *tail])


def params_of(**values: object) -> dict[str, str]:
    """Return query parameters without those that are None; True is "1"."""
    return {
        name: "1" if value is True else str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


def submit(ask: Submit, idempotency_key: str) -> Call[PodGroupView]:
    """Ask for devices."""
    return Call(
        method="POST",
        path=f"{API}/pod-groups",
        json=encode(ask),
        headers={"Idempotency-Key": idempotency_key},
        read=one(PodGroupView),
    )


def groups(*, queue: str | None, state: str | None, mine: bool) -> Call[PodGroupList]:
    """List the groups that the caller may see."""
    params = params_of(queue=queue, state=state, mine=mine)
    return Call(method="GET", path=f"{API}/pod-groups", params=params, read=one(PodGroupList))


def group(namespace: str, name: str) -> Call[PodGroupView]:
    """Look at one group."""
    return Call(method="GET", path=group_path(namespace, name), read=one(PodGroupView))


def extend(namespace: str, name: str, ask: Extend) -> Call[PodGroupView]:
    """Lengthen a lease."""
    path = group_path(namespace, name, "extend")
    return Call(method="POST", path=path, json=encode(ask), read=one(PodGroupView))


def cancel(namespace: str, name: str, ask: Cancel) -> Call[PodGroupView]:
    """End or withdraw a group."""
    path = group_path(namespace, name, "cancel")
    return Call(method="POST", path=path, json=encode(ask), read=one(PodGroupView))


def move(namespace: str, name: str, ask: Move) -> Call[PodGroupView]:
    """Carry a lease over to the restarted kernel's process."""
    path = group_path(namespace, name, "move")
    return Call(method="POST", path=path, json=encode(ask), read=one(PodGroupView))


def logs(
    namespace: str, name: str, *, rank: int | None, after: int, tail: int | None, wait_s: float
) -> Call[LogPage]:
    """Read a page of a group's output; `wait_s` waits so long for the first new line."""
    params = params_of(rank=rank, after=after, tail=tail, wait_s=wait_s or None)
    return Call(
        method="GET",
        path=group_path(namespace, name, "logs"),
        params=params,
        read=one(LogPage),
        patience_s=30.0 + wait_s,
    )


def run_cell(namespace: str, name: str, ask: CellAsk) -> Call[CellView]:
    """Run a cell in a companion; the same id again is the same cell."""
    path = group_path(namespace, name, "cells")
    return Call(method="POST", path=path, json=encode(ask), read=one(CellView))


def cell(namespace: str, name: str, which: str, *, after: int, wait_s: float) -> Call[CellView]:
    """Look at a cell: what it wrote from `after` on; `wait_s` waits so long for news."""
    return Call(
        method="GET",
        path=group_path(namespace, name, "cells", which),
        params=params_of(after=after, wait_s=wait_s),
        read=one(CellView),
        patience_s=30.0 + wait_s,
    )


def interrupt_cell(namespace: str, name: str, which: str) -> Call[CellView]:
    """Interrupt a cell, as Ctrl-C does."""
    path = group_path(namespace, name, "cells", which, "interrupt")
    return Call(method="POST", path=path, read=one(CellView))


def result_path(namespace: str, name: str, cell: str | None) -> str:
    """Return where the values of a group are, or those of a cell of its companion."""
    tail = ("result",) if cell is None else ("cells", cell, "result")
    return group_path(namespace, name, *tail)


def explain(namespace: str, name: str) -> Call[ExplainView]:
    """Ask why a group stands as it does."""
    return Call(method="GET", path=group_path(namespace, name, "explain"), read=one(ExplainView))


def forecast(**ask: object) -> Call[ForecastView]:
    """Ask what a request would get if it were made now."""
    params = params_of(**ask)
    return Call(method="GET", path=f"{API}/forecast", params=params, read=one(ForecastView))


def queues() -> Call[tuple[QueueView, ...]]:
    """List the queues."""
    return Call(method="GET", path=f"{API}/queues", read=many(QueueView))


def nodes() -> Call[tuple[NodeView, ...]]:
    """List the nodes and their devices."""
    return Call(method="GET", path=f"{API}/nodes", read=many(NodeView))


def cycles(last: int) -> Call[tuple[CycleView, ...]]:
    """List the last planning cycles."""
    return Call(
        method="GET", path=f"{API}/cycles", params={"last": str(last)}, read=many(CycleView)
    )


def snapshot(cycle: int | None = None) -> Call[dict[str, Any]]:
    """Download the ledger as a snapshot file's content, or a cycle as a capture's."""
    params = {} if cycle is None else {"cycle": str(cycle)}
    return Call(method="GET", path=f"{API}/snapshot", params=params, read=dict)


def health() -> Call[Health]:
    """Ask whether the service lives and is ready."""
    return Call(method="GET", path=f"{API}/health", read=one(Health), patience_s=10.0)


def me() -> Call[CallerView]:
    """Ask who the service takes the caller for."""
    return Call(method="GET", path=f"{API}/me", read=one(CallerView))


def payload_stored() -> Callable[[Any], PayloadStored]:
    """Return the reader of an upload's answer."""
    return one(PayloadStored)
