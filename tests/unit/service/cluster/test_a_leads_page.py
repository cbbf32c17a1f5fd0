"""A lead's page in a cluster: read as anywhere, changed on its Queue objects."""

from __future__ import annotations

import pytest

from scheduler_service.ports import Caller, NotAllowed, RefusedRequest
from scheduler_service.wire.team import LeadAsk, Undo
from tests.fakes.cluster_service import ClusterStage
from tests.unit.service.cluster.test_what_is_seen import EVE, told

LEAD = Caller("lea", scopes=frozenset({"read", "lead:q"}))
DRAIN = LeadAsk(kind="drain", queue="q", reason="New nodes come")


def test_the_page_is_there_for_who_leads_a_queue() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train", gpus=8)
        page = await stage.service.team(LEAD)
        assert page.led == ("q",)
        assert [row.name for row in page.waiting] == ["train"]
        assert not page.may_change
        with pytest.raises(NotAllowed):
            await stage.service.team(EVE)

    told(story)


def test_a_change_says_where_it_is_made_and_only_to_who_may() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.turn()
        for door in (stage.service.change, stage.service.what_if):
            with pytest.raises(RefusedRequest) as refused:
                await door(LEAD, DRAIN)
            assert refused.value.problem.status == 501
            assert "kubectl edit queues.scheduling.run.ai q" in refused.value.problem.hint
            with pytest.raises(NotAllowed):
                await door(EVE, DRAIN)
        with pytest.raises(RefusedRequest) as refused:
            await stage.service.undo(LEAD, 1, Undo())
        assert refused.value.problem.status == 404

    told(story)
