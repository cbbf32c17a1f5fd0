"""The titles of the items of "Why am I waiting?"."""

from __future__ import annotations

import pytest

from scheduler_service.model.reasons import NoScenario, NotEnoughOnNode, NoVictims
from scheduler_service.service.reasons_told import title_of


@pytest.mark.parametrize(
    ("action", "title"),
    [("preempt", "Priority"), ("reclaim", "Other queues"), ("consolidate", "Moving others")],
)
def test_what_an_action_could_not_do_is_titled_by_the_action(action: str, title: str) -> None:
    assert title_of(NoVictims(action)) == title
    assert title_of(NoScenario(action, 2, 1)) == title


def test_other_reasons_are_titled_by_their_kind() -> None:
    assert title_of(NotEnoughOnNode("gpu", 500, 0, "n0")) == "Room"
