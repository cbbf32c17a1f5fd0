"""Answers to "why?" and "what if?": explanations of waiting groups and forecasts for requests not yet made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler_service.wire.pod_group import ActionView, EtaView, ReasonView, RequestView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainItem:
    """One fact and the one thing to do about it, in the order people need them."""

    title: str
    """"Quota", "Ahead of you", "Frees it", "Yours", "Fragmentation", …"""
    text: str
    action: ActionView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainView:
    """Why a group stands as it does."""

    namespace: str
    name: str
    headline: str
    position: int | None
    waiting_in_queue: int | None
    overall: int | None
    eta: EtaView | None
    reasons: tuple[ReasonView, ...]
    """Every reason of every action that looked at it, blocking one first."""
    items: tuple[ExplainItem, ...]
    would_help: tuple[ActionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastView:
    """What a request would get if it were made now. `text` is "now", "about 6 min (4 to 11)" or "never, because …"."""

    verdict: Literal["now", "about", "unknown", "never"]
    text: str
    queue: str
    request: RequestView
    workers: int
    position: int | None = None
    waiting_in_queue: int | None = None
    eta: EtaView | None = None
    reason: ReasonView | None = None
    simulated: bool = False
    """Whether the GPUs it would get are simulated; every surface that shows it says so."""
