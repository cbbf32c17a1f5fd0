"""Which wire type a route reads and which it gives, as OpenAPI's words.

By name only: were the types given to FastAPI, it would build a pydantic model of each at every start, half a second
that is needed when somebody asks for the document and not before.
"""

from __future__ import annotations

from typing import Any

from scheduler_service.wire import (
    cluster,
    companion,
    events,
    explain,
    pod_group,
    problem,
    runner,
    team,
)

GIVEN: tuple[type, ...] = (
    pod_group.PodGroupView,
    pod_group.PodGroupList,
    pod_group.PayloadStored,
    runner.LogPage,
    runner.LogLine,
    runner.ClaimAnswer,
    runner.ProofAnswer,
    runner.Orders,
    explain.ExplainView,
    explain.ForecastView,
    cluster.QueueView,
    cluster.NodeView,
    cluster.CycleView,
    cluster.Health,
    cluster.CallerView,
    companion.CellView,
    companion.CellOrders,
    events.StreamEvent,
    team.TeamView,
    team.WhatIfView,
    team.ChangeView,
    problem.Problem,
)
BINARY = {"type": "string", "format": "binary"}


def reads(kind: type) -> dict[str, Any]:
    """Return the part that says: this route reads a `kind`."""
    return {"requestBody": {"required": True, "content": _json(_named(kind))}}


def gives(kind: type, *, status: int = 200, about: str = "As asked") -> dict[int | str, Any]:
    """Return the part that says: this route gives a `kind`."""
    return {status: {"description": about, "content": _json(_named(kind))}}


def gives_many(kind: type) -> dict[int | str, Any]:
    """Return the part that says: this route gives a list of `kind`."""
    schema = {"type": "array", "items": _named(kind)}
    return {200: {"description": "As asked", "content": _json(schema)}}


def streams(kind: type) -> dict[int | str, Any]:
    """Return the part that says: this route streams messages with a `kind` in each."""
    content = {"text/event-stream": {"schema": _named(kind)}}
    return {200: {"description": "One message each", "content": content}}


def gives_or_streams(page: type, line: type) -> dict[int | str, Any]:
    """Return the part that says: this route gives a `page`, or on wish streams a `line` in each message."""
    content = _json(_named(page)) | {"text/event-stream": {"schema": _named(line)}}
    return {200: {"description": "As asked, or one message each", "content": content}}


def gives_bytes() -> dict[int | str, Any]:
    """Return the part that says: this route gives bytes."""
    content = {"application/octet-stream": {"schema": BINARY}}
    return {200: {"description": "The bytes", "content": content}}


def reads_bytes() -> dict[str, Any]:
    """Return the part that says: this route reads bytes."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": BINARY}},
        }
    }


def _named(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
