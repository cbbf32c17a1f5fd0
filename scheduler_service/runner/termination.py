"""What a pod's worker said of its end, as the container's termination message: the kubelet keeps 4,096 bytes of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from scheduler_service.wire import codec
from scheduler_service.wire.runner import Failure, Report

MOST_BYTES = 4096
FILE = "/dev/termination-log"
VARIABLE = "KAI_TERMINATION_FILE"
_CUT = "… (the pod's log has the rest)\n"


def leave(report: Report, environ: Mapping[str, str]) -> None:
    """Write the message; a pod without a place for it has its log."""
    with contextlib.suppress(OSError):
        Path(environ.get(VARIABLE, FILE)).write_bytes(fitted(report))


def read(message: str) -> Report | None:
    """Return what a termination message says; None for one that is not ours or not whole."""
    try:
        return codec.decode(Report, json.loads(message))
    except (ValueError, TypeError, AttributeError):
        return None


def fitted(report: Report) -> bytes:
    """Return the report in at most `MOST_BYTES`: what can be read elsewhere is cut first."""
    for smaller in (report, *_smaller(report)):
        body = json.dumps(codec.encode(smaller), separators=(",", ":")).encode()
        if len(body) <= MOST_BYTES:
            return body
    return b"{}"


def _smaller(report: Report) -> list[Report]:
    """Return the report with less and less: the sources, the head of the traceback, long texts, all values."""
    failure = report.failure
    found: list[Report] = []
    if failure is not None:
        failure = replace(failure, source=None)
        found.append(replace(report, failure=failure))
        for length in (2000, 1000, 400):
            failure = _tail(failure, length)
            found.append(replace(report, failure=failure))
    short = replace(report, failure=failure, reason_text=report.reason_text[:300], results=())
    return [*found, *(replace(short, results=report.results[:n]) for n in (20, 10, 5, 1, 0))]


def _tail(failure: Failure, length: int) -> Failure:
    """Keep the end of a traceback, where the error is."""
    trace = failure.traceback
    if len(trace) > length:
        trace = _CUT + trace[-length:]
    return replace(failure, traceback=trace, message=failure.message[:length])
