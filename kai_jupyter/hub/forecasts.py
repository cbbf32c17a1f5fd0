"""What the start page shows: which queues a person may use, and when each choice would start. Cached for all pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiJupyterError, KaiRequestError
from kai_jupyter.hub.options import CPU, OTHER, Chosen, Offer, extras_of, forecast_fields, gpu_title
from scheduler_service.wire.cluster import QueueView
from scheduler_service.wire.explain import ForecastView

T = TypeVar("T")
KEPT_S = 3.0
PATIENCE_S = 2.0
SOON_MS = 60_000
"""Who would wait longer is offered to start on the CPU."""
MOST_KEPT = 2048
AWAY = "The queue does not answer. On CPU you start now."


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One card: a share, what goes with it, and when it would start."""

    id: str
    title: str
    about: str
    verdict: str
    """now, about, unknown, never or away."""
    when: str
    more: str = ""
    is_long: bool = False
    """Whether the wait is over a minute, or nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue that the person may use."""

    name: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What the page draws. `told`: a sentence where the queue does not answer or gives no GPU."""

    rows: tuple[Row, ...]
    queues: tuple[QueueRow, ...]
    queue: str = ""
    told: str = ""
    simulated: bool = False
    at: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels."""
        return asdict(self)


class Kept(Generic[T]):
    """Answers of a few seconds ago; who asks while one is fetched waits for the same."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._answers: dict[object, tuple[float, T]] = {}
        self._coming: dict[object, asyncio.Task[T]] = {}

    async def get(self, key: object, fetch: Callable[[], Awaitable[T]]) -> T:
        """Return the answer for `key`, fetched if the last is too old."""
        until, answer = self._answers.get(key, (0.0, None))
        if time.monotonic() < until and answer is not None:
            return answer
        if key not in self._coming:
            self._coming[key] = asyncio.create_task(self._fetched(key, fetch))
            self._coming[key].add_done_callback(lambda _: self._coming.pop(key, None))
        return await asyncio.shield(self._coming[key])

    async def _fetched(self, key: object, fetch: Callable[[], Awaitable[T]]) -> T:
        answer = await fetch()
        self._answers[key] = (time.monotonic() + self._kept_s, answer)
        while len(self._answers) > MOST_KEPT:
            del self._answers[next(iter(self._answers))]
        return answer


async def picture(client: AsyncKaiClient, offer: Offer, chosen: Chosen, *, now: int) -> Picture:
    """Return the page's picture for a queue and priority (`chosen`); it never raises and never takes long."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            usable = _usable(await client.queues())
    except (KaiJupyterError, TimeoutError) as error:
        return _without(offer, _why_none(error), now)
    if not usable:
        return _without(offer, "You are in no queue yet. Ask the lead of your group's queue.", now)
    names = [queue.name for queue in usable]
    queue = chosen.queue if chosen.queue in names else names[0]
    asked = [replace(chosen, share=share.id, queue=queue) for share in offer.shares]
    if offer.takes_memory and chosen.share == OTHER and chosen.gpu_memory:
        asked.append(replace(chosen, queue=queue))
    found = await asyncio.gather(*(_row(client, offer, one) for one in asked))
    return Picture(
        rows=tuple(row for row, _ in found),
        queues=tuple(QueueRow(name=view.name, about=view.sentence) for view in usable),
        queue=queue,
        simulated=any(is_simulated for _, is_simulated in found),
        at=now,
    )


def _usable(queues: tuple[QueueView, ...]) -> list[QueueView]:
    return [queue for queue in queues if queue.is_leaf and queue.may_submit]


def _why_none(error: Exception) -> str:
    if isinstance(error, KaiRequestError) and error.problem.status < 500:  # noqa: PLR2004 - the HTTP class
        return f"{error} On CPU you start now."
    return AWAY


def _without(offer: Offer, told: str, now: int) -> Picture:
    verdict, when = ("away", "not known") if told == AWAY else ("never", "never")
    rows = tuple(
        _cpu_row(offer)
        if share.id == CPU
        else Row(
            id=share.id,
            title=gpu_title(share.gpu),
            about=extras_of(share),
            verdict=verdict,
            when=when,
            is_long=True,
        )
        for share in offer.shares
    )
    return Picture(rows=rows, queues=(), told=told, at=now)


def _cpu_row(offer: Offer) -> Row:
    share = offer.share(CPU)
    extras = extras_of(share) if share else ""
    about = "Ask with %gpu 0.5 in any cell; what runs on CPU keeps running."
    about = f"{extras}. {about}" if extras else about
    return Row(id=CPU, title="CPU now, GPU later", about=about, verdict="now", when="now")


async def _row(client: AsyncKaiClient, offer: Offer, chosen: Chosen) -> tuple[Row, bool]:
    if not chosen.wants_gpu:
        return _cpu_row(offer), False
    share = offer.share(chosen.share)
    extras = extras_of(share) if share else ""
    title = "GPU memory" if chosen.share == OTHER else gpu_title(chosen.share)
    blank = Row(id=chosen.share, title=title, about=extras, verdict="away", when="not known")
    try:
        async with asyncio.timeout(PATIENCE_S):
            forecast = await client.forecast(**forecast_fields(chosen, offer))
    except KaiRequestError as error:
        return _never(blank, str(error)), False
    except (KaiJupyterError, TimeoutError):
        return replace(blank, is_long=True), False
    return _told(blank, forecast), forecast.simulated


def _never(blank: Row, why: str) -> Row:
    return replace(blank, verdict="never", when="never", about=f"Never: {why}", is_long=True)


def _told(blank: Row, forecast: ForecastView) -> Row:
    if forecast.verdict == "never":
        why = forecast.reason.text if forecast.reason else forecast.text.partition("because ")[2]
        return _never(blank, why or forecast.text)
    when, _, spread = forecast.text.partition(" (")
    place = f"position {forecast.position} of {_of(forecast)}" if forecast.position else ""
    if forecast.verdict == "now":
        place = ""
    more = ", ".join(part for part in (spread.rstrip(")"), place) if part)
    about = ", ".join(part for part in (_memory(forecast), blank.about) if part)
    return replace(
        blank,
        verdict=forecast.verdict,
        when=when,
        more=more,
        about=about,
        is_long=_is_long(forecast),
    )


def _of(forecast: ForecastView) -> int:
    return max(forecast.position or 1, forecast.waiting_in_queue or 1)


def _memory(forecast: ForecastView) -> str:
    mib = forecast.request.share_mib
    return f"{mib / 1024:g} GiB of GPU memory" if mib else ""


def _is_long(forecast: ForecastView) -> bool:
    eta = forecast.eta
    if forecast.verdict == "now":
        return False
    if eta is None or eta.likely_at is None or eta.earliest_at is None:
        return True
    return eta.latest_at is None or eta.likely_at - _now(eta.earliest_at) > SOON_MS


def _now(earliest_at: int) -> int:
    return min(earliest_at, time.time_ns() // 1_000_000)
