"""Cells that run in a companion: the pod that holds a lease for a notebook outside it (`/pod-groups/…/cells`).

A cell is known by the id that its notebook chose: sent again, after a service that changed its leader, it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler_service.wire.pod_group import ResultItem
from scheduler_service.wire.runner import Failure

CellState = Literal["waiting", "running", "succeeded", "failed", "interrupted", "lost"]
OVER: frozenset[CellState] = frozenset({"succeeded", "failed", "interrupted", "lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAsk:
    """`POST /pod-groups/{namespace}/{name}/cells`: run this payload, uploaded before, in the companion."""

    id: str
    """32 hex digits, made by the notebook."""
    payload_sha256: str
    signature: str
    """HMAC of companion, id and digest by the owner (`signing.sign_cell`); the companion refuses any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutput:
    """A piece of what a cell wrote, as it was written. `seq` is dense a cell, from 0."""

    seq: int
    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """How a cell stands, with what it wrote since the cursor that was asked with."""

    id: str
    state: CellState
    incarnation: str
    """The companion that runs it: results are signed for it."""
    output: tuple[CellOutput, ...] = ()
    next: int = 0
    failure: Failure | None = None
    results: tuple[ResultItem, ...] = ()
    text: str = ""
    """Why it is lost: its variables are gone then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOrders:
    """`GET /runner/pods/{incarnation}/cells` (long poll): the next cell; how often the running one was interrupted."""

    cell: CellAsk | None = None
    interrupts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReport:
    """`POST /runner/pods/{incarnation}/cells`: what a cell wrote, and how it stands; a repeat changes nothing."""

    id: str
    state: CellState
    output: tuple[CellOutput, ...] = ()
    failure: Failure | None = None
    results: tuple[ResultItem, ...] = ()
    text: str = ""
