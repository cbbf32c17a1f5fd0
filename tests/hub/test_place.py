"""The place of one server: asked for once, found again, waited for through every silence, given back."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

import pytest

from kai_jupyter.errors import KaiRequestError, NotGranted, ServiceUnreachable
from kai_jupyter.hub import place as module
from kai_jupyter.hub.options import Chosen, Offer, wanted
from kai_jupyter.hub.place import Place
from kai_jupyter.kernel_lease import process_of
from scheduler_service.wire.pod_group import PodGroupList, PodGroupView, Submit
from scheduler_service.wire.problem import Problem
from tests.hub.test_stages import VIEW


def ask(share: str = "0.5", queue: str = "", priority: str = "usual") -> Submit:
    chosen = Chosen(share=share, queue=queue, priority=priority)
    return wanted(chosen, Offer(), key="server:", process=process_of(os.getpid()))


def waiting(name: str, wish: Submit) -> PodGroupView:
    return replace(VIEW, name=name, origin=wish.origin)


class Script:
    """A service that answers what it is told to, and notes what it was asked."""

    def __init__(self, *answers: Any, groups: tuple[PodGroupView, ...] = ()) -> None:
        self.answers = list(answers)
        self.groups_now = groups
        self.asked: list[str] = []

    async def groups(self, **_: Any) -> PodGroupList:
        return PodGroupList(rev=1, items=self.groups_now)

    async def send(self, call: Any) -> Any:
        self.asked.append(f"{call.method} {call.path.rpartition('/')[2]}")
        return self._next()

    async def group(self, _namespace: str, _name: str) -> Any:
        return self._next()

    async def cancel(self, _namespace: str, name: str, **_: Any) -> Any:
        self.asked.append(f"cancel {name}")
        return self._next()

    def _next(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def place(self) -> Place:
        async def client() -> Any:
            return self

        return Place(client=client, key="server:")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    monkeypatch.setattr(module, "LONGEST_LOOK_S", 0.0)


def refusal(status: int = 404) -> KaiRequestError:
    problem = Problem(type="x", title="No.", status=status, detail="", hint="", code="x")
    return KaiRequestError(problem)


def test_the_same_choice_takes_its_place_up_again() -> None:
    before = waiting("server", ask())
    script = Script(before, groups=(before,))
    view = asyncio.run(script.place().ask(ask(queue="team-a")))
    assert view.name == "server"
    assert script.asked == ["POST move"]


def test_another_choice_gives_the_place_back_and_asks_anew() -> None:
    before = waiting("server", ask("1"))
    script = Script(before, waiting("server-2", ask()), groups=(before,))
    assert asyncio.run(script.place().ask(ask())).name == "server-2"
    assert script.asked == ["POST cancel", "POST pod-groups"]


def test_another_queue_is_another_place() -> None:
    before = waiting("server", ask())
    script = Script(before, waiting("server-2", ask()), groups=(before,))
    asyncio.run(script.place().ask(ask(queue="team-b")))
    assert script.asked == ["POST cancel", "POST pod-groups"]


def test_what_is_over_or_another_servers_is_not_taken_up() -> None:
    over = replace(waiting("old", ask()), state="Cancelled")
    other = replace(waiting("other", ask()), origin=replace(ask().origin, kernel_id="server:b"))
    script = Script(waiting("server", ask()), groups=(over, other))
    asyncio.run(script.place().ask(ask()))
    assert script.asked == ["POST pod-groups"]


def test_the_wait_outlasts_every_silence() -> None:
    silences: list[float] = []
    runs = replace(VIEW, state="Running")
    script = Script(
        ServiceUnreachable("away"), refusal(503), VIEW, ServiceUnreachable("away"), runs
    )
    place = script.place()
    place.is_away = silences.append
    place.name = ("ana", "server")
    seen: list[str] = []
    asyncio.run(place.granted(lambda view: seen.append(view.state)))
    assert seen == ["Waiting", "Running"]
    assert len(silences) == 3


def test_one_that_ended_or_is_forgotten_is_told() -> None:
    gone = replace(VIEW, state="Cancelled", sentence="Cancelled by lea.")
    script = Script(gone)
    place = script.place()
    place.name = ("ana", "server")
    with pytest.raises(NotGranted, match="Cancelled by lea"):
        asyncio.run(place.granted(lambda _: None))
    script.answers = [VIEW, refusal()]
    with pytest.raises(NotGranted, match="has forgotten this request"):
        asyncio.run(place.granted(lambda _: None))


def test_what_is_forgotten_is_given_back_already() -> None:
    script = Script(refusal())
    place = script.place()
    place.name = ("ana", "server")
    assert asyncio.run(place.give_back("the end")) == ""
    assert asyncio.run(place.give_back("the end")) == ""
    assert script.asked == ["cancel server"]


def test_what_can_not_be_given_back_is_told() -> None:
    script = Script(ServiceUnreachable("The queue is away."))
    place = script.place()
    place.name = ("ana", "server")
    assert asyncio.run(place.give_back("the end")) == "The queue is away."
