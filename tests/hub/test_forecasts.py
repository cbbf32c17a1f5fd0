"""The picture of the start page: never an exception, never a long wait, each choice with its own sentence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kai_jupyter.errors import KaiRequestError, ServiceUnreachable
from kai_jupyter.hub.forecasts import AWAY, Kept, Picture, picture
from kai_jupyter.hub.forms import first_choice, lead_of
from kai_jupyter.hub.options import Chosen, Offer, offer_of
from scheduler_service.wire.cluster import Amounts, QueueView
from scheduler_service.wire.explain import ForecastView
from scheduler_service.wire.pod_group import EtaView, ReasonView, RequestView
from scheduler_service.wire.problem import Problem

OFFER = offer_of(["cpu", "0.5", "2"], [], takes_memory=True)
QUEUE = QueueView(
    name="team-a",
    parent=None,
    depth=0,
    is_leaf=True,
    priority=100,
    quota=Amounts(),
    limit=Amounts(),
    over_quota_weight=1,
    fair_share=Amounts(),
    allocated=Amounts(),
    requested=Amounts(),
    waiting=6,
    running=0,
    may_submit=True,
    shows_names=False,
    sentence="7.75 of 8 GPUs held.",
)
NOW = ForecastView(
    verdict="now",
    text="now",
    queue="team-a",
    request=RequestView(text="0.5 GPU", share_mib=12 * 1024),
    workers=1,
    simulated=True,
)
ABOUT = replace(
    NOW,
    verdict="about",
    text="about 6 min (4 to 11)",
    position=3,
    waiting_in_queue=7,
    eta=EtaView(earliest_at=240_000, likely_at=360_000, latest_at=660_000, basis="declared"),
)
NEVER = replace(
    NOW, verdict="never", reason=ReasonView(code="x", text="The largest node has 1 GPU.")
)


def seen(chosen: Chosen | None = None, *, queues: Any = (QUEUE,), **by_gpu: Any) -> Picture:
    async def told_queues() -> Any:
        if isinstance(queues, Exception):
            raise queues
        return queues

    async def forecast(**fields: Any) -> Any:
        answer = by_gpu.get(f"g{fields.get('gpu', '')}".replace(".", "_"), NOW)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client: Any = SimpleNamespace(queues=told_queues, forecast=forecast)
    return asyncio.run(picture(client, OFFER, chosen or Chosen(), now=1))


def test_each_card_says_when_it_would_start() -> None:
    shown = seen(g0_5=ABOUT, g2=NEVER)
    rows = {row.id: row for row in shown.rows}
    assert [row.id for row in shown.rows] == ["cpu", "0.5", "2"]
    assert (rows["cpu"].when, rows["cpu"].is_long) == ("now", False)
    half = rows["0.5"]
    assert (half.when, half.more) == ("about 6 min", "4 to 11, position 3 of 7")
    assert half.about == "12 GiB of GPU memory"
    assert half.is_long
    assert rows["2"].about == "Never: The largest node has 1 GPU."
    assert (shown.queue, shown.simulated) == ("team-a", True)


def test_a_refusal_is_a_never_with_its_sentence() -> None:
    problem = Problem(
        type="x", title="Too much.", status=422, detail="", hint="Ask for less.", code="x"
    )
    row = seen(g2=KaiRequestError(problem)).rows[2]
    assert (row.verdict, row.about) == ("never", "Never: Too much. Ask for less.")


def test_memory_has_its_own_forecast_once_it_is_written() -> None:
    assert seen(Chosen(share="memory", gpu_memory="8GiB")).rows[-1].id == "memory"


def test_a_queue_that_is_away_leaves_the_cpu() -> None:
    shown = seen(queues=ServiceUnreachable("away"))
    assert shown.told == AWAY
    assert [(row.id, row.verdict) for row in shown.rows] == [
        ("cpu", "now"),
        ("0.5", "away"),
        ("2", "away"),
    ]


def test_who_is_in_no_queue_is_told_whom_to_ask() -> None:
    shown = seen(queues=(replace(QUEUE, may_submit=False),))
    assert shown.told.startswith("You are in no queue yet.")
    assert {row.verdict for row in shown.rows if row.id != "cpu"} == {"never"}


def test_the_last_choice_is_taken_when_it_starts_soon_else_the_cpu() -> None:
    soon, late = list(seen().rows), list(seen(g0_5=ABOUT).rows)
    assert first_choice(soon, "0.5") == "0.5"
    assert first_choice(late, "0.5") == "cpu"
    assert first_choice(late, "") == "cpu"
    assert lead_of(soon, Chosen(share="0.5")) == ""
    assert lead_of(late, Chosen(share="0.5")) == (
        "Your last choice, 0.5 GPU, would wait about 6 min. "
        "On CPU you start now and ask for the GPU from the notebook."
    )


def test_a_hub_without_cpu_servers_offers_what_starts() -> None:
    rows = [row for row in seen(g0_5=ABOUT).rows if row.id != "cpu"]
    assert first_choice(rows, "") == "0.5"
    assert Offer(shares=OFFER.shares[1:]).has_cpu is False


def test_answers_are_kept_and_asked_for_once() -> None:
    asked = []

    async def fetch() -> str:
        asked.append(1)
        await asyncio.sleep(0)
        return "x"

    async def story() -> None:
        kept: Kept[str] = Kept()
        await asyncio.gather(*(kept.get("k", fetch) for _ in range(5)))
        await kept.get("k", fetch)

    asyncio.run(story())
    assert asked == [1]
