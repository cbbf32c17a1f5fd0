"""Bodies in: JSON into wire types, streams with a limit.

Rule: a body that can not be read is refused with one sentence that names the field. NaN, infinity and
integers that JSON readers do not agree on are refused here, so that nobody inside needs to ask.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
from fastapi import Depends, Request

from scheduler_service.errors import RequestError
from scheduler_service.wire import companion, pod_group, runner, team

T = TypeVar("T")

JSON_LIMIT_BYTES = 1 << 20
LOG_CHUNK_LIMIT_BYTES = 8 << 20
MAX_SAFE_INTEGER = 2**53 - 1
_STRICT = (pod_group.Submit, pod_group.Extend, pod_group.Cancel, team.LeadAsk, team.Undo)
"""People write these: a misspelt field would be a request for something else than meant. Programs write the others."""


def json_body(kind: type[T], *, limit: int = JSON_LIMIT_BYTES) -> Callable[[Request], Awaitable[T]]:
    """Return the dependency that reads a body as `kind`."""

    async def read(request: Request) -> T:
        return parse(kind, await whole_body(request, limit))

    return read


def parse(kind: type[T], body: bytes) -> T:
    """Return `body` as `kind`. Raises `RequestError` that names the field."""
    data = parse_json(body)
    if kind in _STRICT:
        _refuse_unknown_fields(kind, data)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _located(error) from None


def parse_json(body: bytes) -> object:
    """Return JSON as Python values; `RequestError` for what is not JSON or holds numbers nobody can rely on."""
    try:
        data = msgspec.json.decode(body or b"{}")
        _refuse_unsafe(data, "$")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(
            "The body is not valid JSON.",
            why=f"{error}. NaN and Infinity are not JSON.",
            hint="Send one JSON object, encoded as UTF-8.",
            code="bad_json",
        ) from None
    return data


async def whole_body(request: Request, limit: int) -> bytes:
    """Return the body, never more than `limit` bytes of it."""
    parts = [chunk async for chunk in limited(request, limit)]
    return b"".join(parts)


async def limited(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the body's chunks; raise `RequestError` (413) once they exceed `limit`."""
    declared = request.headers.get("content-length", "")
    total = 0
    stream = request.stream()
    if declared.isdigit() and int(declared) > limit:
        await _drain(stream, 4 * limit)
        raise _too_large(int(declared), limit)
    async for chunk in stream:
        total += len(chunk)
        if total > limit:
            await _drain(stream, 4 * limit)
            raise _too_large(total, limit)
        yield chunk


async def _drain(stream: AsyncIterator[bytes], limit: int) -> None:
    """Read on, bounded: a client that still writes when the answer comes sees a broken pipe, no sentence."""
    total = 0
    async for chunk in stream:
        total += len(chunk)
        if total > limit:
            return


def _too_large(size: int, limit: int) -> RequestError:
    return RequestError(
        f"The body is too large: {size / 2**20:.1f} MiB.",
        why=f"The limit is {limit / 2**20:.0f} MiB.",
        hint="Send less: read large data from files in the work itself, or have the limit raised.",
        status=413,
        code="payload_too_large",
        facts={"size": size, "limit": limit},
    )


def _refuse_unknown_fields(kind: type, data: object) -> None:
    if not isinstance(data, dict):
        return
    known = [field.name for field in dataclasses.fields(kind)]
    for name in data:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise RequestError(
                f"There is no field '{name}' in a {kind.__name__}.",
                why="An unknown field would be ignored and the request would mean something else.",
                hint=f"Did you mean '{near[0]}'?"
                if near
                else f"The fields are: {', '.join(known)}.",
                code="unknown_field",
                facts={"field": name},
            )


def _refuse_unsafe(data: object, where: str) -> None:
    if isinstance(data, dict):
        for key, value in data.items():
            _refuse_unsafe(key, where)
            _refuse_unsafe(value, f"{where}.{key}")
    elif isinstance(data, list):
        for index, value in enumerate(data):
            _refuse_unsafe(value, f"{where}[{index}]")
    elif isinstance(data, int) and abs(data) > MAX_SAFE_INTEGER:
        raise RequestError(
            f"The number at {where} is too large.",
            why="JSON readers keep whole numbers exact up to 9007199254740991 only.",
            hint="Send a smaller number.",
            code="bad_field",
            facts={"field": where},
        )
    elif isinstance(data, str) and "\0" in data:
        raise RequestError(
            f"The text at {where} holds a NUL character.",
            why="No name, command or path can hold one.",
            hint="Leave it out.",
            code="bad_field",
            facts={"field": where},
        )


def _located(error: msgspec.ValidationError) -> RequestError:
    """Put msgspec's location first. Its text is all it gives: 'Expected `int`, got `str` - at `$.workers`'."""
    text, _, place = str(error).partition(" - at ")
    field = place.strip("`").removeprefix("$.") or "the body"
    return RequestError(
        f"The field '{field}' can not be used." if place else "The body can not be used.",
        why=f"{text}.",
        hint="The fields and their types are listed in /api/v1/openapi.json.",
        code="bad_field",
        facts={"field": field},
    )


SubmitBody = Annotated[pod_group.Submit, Depends(json_body(pod_group.Submit))]
ExtendBody = Annotated[pod_group.Extend, Depends(json_body(pod_group.Extend))]
CancelBody = Annotated[pod_group.Cancel, Depends(json_body(pod_group.Cancel))]
MoveBody = Annotated[pod_group.Move, Depends(json_body(pod_group.Move))]
ClaimBody = Annotated[runner.ClaimRequest, Depends(json_body(runner.ClaimRequest))]
ProofBody = Annotated[
    runner.ProofRequest, Depends(json_body(runner.ProofRequest, limit=LOG_CHUNK_LIMIT_BYTES))
]
BeatBody = Annotated[runner.Beat, Depends(json_body(runner.Beat))]
ReportBody = Annotated[
    runner.Report, Depends(json_body(runner.Report, limit=LOG_CHUNK_LIMIT_BYTES))
]
LogChunkBody = Annotated[
    runner.LogChunk, Depends(json_body(runner.LogChunk, limit=LOG_CHUNK_LIMIT_BYTES))
]
LeadBody = Annotated[team.LeadAsk, Depends(json_body(team.LeadAsk))]
UndoBody = Annotated[team.Undo, Depends(json_body(team.Undo))]
CellBody = Annotated[companion.CellAsk, Depends(json_body(companion.CellAsk))]
CellReportBody = Annotated[
    companion.CellReport, Depends(json_body(companion.CellReport, limit=LOG_CHUNK_LIMIT_BYTES))
]
BODIES: tuple[type, ...] = tuple(
    typing.get_args(body)[0]
    for body in (
        SubmitBody,
        ExtendBody,
        CancelBody,
        MoveBody,
        ClaimBody,
        ProofBody,
        BeatBody,
        ReportBody,
        LogChunkBody,
        LeadBody,
        UndoBody,
        CellBody,
        CellReportBody,
    )
)
