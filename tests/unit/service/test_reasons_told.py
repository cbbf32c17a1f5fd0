"""The items of "Why am I waiting?": their titles, and what to do about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest

from scheduler_service.model.reasons import NoScenario, NotEnoughOnNode, NoVictims
from scheduler_service.service.reasons_told import title_of
from scheduler_service.wire.pod_group import Kind
from tests.fakes.bench_service import ANA, BEN, Stage


@pytest.mark.parametrize(
    ("action", "title"),
    [("preempt", "Priority"), ("reclaim", "Other queues"), ("consolidate", "Moving others")],
)
def test_what_an_action_could_not_do_is_titled_by_the_action(action: str, title: str) -> None:
    assert title_of(NoVictims(action)) == title
    assert title_of(NoScenario(action, 2, 1)) == title


def test_other_reasons_are_titled_by_their_kind() -> None:
    assert title_of(NotEnoughOnNode("gpu", 500, 0, "n0")) == "Room"


ENDED_BY = {
    "lease": "%gpu release holds",
    "gang": "%gang stop holds",
    "batch": "%gang stop holds",
    "kernel": "%gpu release holds",
    "server": None,
}


@pytest.mark.parametrize("kind", get_args(Kind))
def test_what_is_yours_is_ended_by_its_name_with_the_magic_of_its_kind(
    tmp_path: Path, kind: str
) -> None:
    async def story() -> str | None:
        stage = await Stage(tmp_path, devices="1x24GiB").begin()
        await stage.ask(kind=kind, gpu=1, name="holds", preemptible=False)
        await stage.start()
        await stage.ask(kind="lease", gpu=0.5, name="waits")
        told = await stage.service.explain(ANA, "ana", "waits")
        (yours,) = (item for item in told.items if item.title == "Yours")
        assert yours.text == "holds holds 1 GPU."
        return None if yours.action is None else yours.action.code

    assert asyncio.run(story()) == ENDED_BY[kind]


def test_what_is_yours_is_not_to_be_ended_where_that_would_not_help(tmp_path: Path) -> None:
    """When this happens: one GPU is held by the person who asks for two, the other by somebody else."""

    async def story() -> None:
        stage = await Stage(tmp_path, devices="2x24GiB").begin()
        await stage.ask(ANA, kind="lease", gpu=1, name="holds", preemptible=False)
        await stage.ask(BEN, kind="lease", gpu=1, name="theirs", preemptible=False)
        await stage.ask(ANA, kind="lease", gpu=2, name="waits")
        told = await stage.service.explain(ANA, "ana", "waits")
        (yours,) = (item for item in told.items if item.title == "Yours")
        assert (yours.text, yours.action) == ("holds holds 1 GPU.", None)

    asyncio.run(story())
