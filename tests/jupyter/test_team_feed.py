"""The feed of a lead's page in a kernel: it listens while somebody looks, and passes wishes on as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.errors import KaiRequestError
from kai_jupyter.finding import Endpoint
from kai_jupyter.team_feed import TeamFeed
from tests.fakes.api_server import RunningApi, running_api

FAIL_SAFE_S = 30


class Heard:
    """What a feed handed on."""

    def __init__(self, api: RunningApi, who: str = "root", **more: Any) -> None:
        self.pages: list[dict[str, Any]] = []
        self.troubles: list[str] = []
        client = AsyncKaiClient(Endpoint(url=api.url, token=f"{who}-token"))
        self.feed = TeamFeed(
            client, on_page=self.pages.append, on_trouble=self.troubles.append, **more
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(FAIL_SAFE_S):
            while not is_so():  # noqa: ASYNC110 - observed, not told
                await asyncio.sleep(0.01)


def lived(story: Callable[[RunningApi], Awaitable[None]]) -> None:
    with running_api() as api:
        asyncio.run(story(api))  # type: ignore[arg-type]


def test_a_feed_listens_while_somebody_looks_and_then_no_more() -> None:
    async def story(api: RunningApi) -> None:
        heard = Heard(api, nobody_looks_s=0.2)
        await heard.feed.first()
        assert heard.pages[0]["title"] == "Queue default"
        assert not heard.feed.is_listening
        heard.feed.look()
        await heard.until(lambda: len(heard.pages) > 1)
        await heard.until(lambda: not heard.feed.is_listening)
        count = len(heard.pages)
        heard.feed.look()
        await heard.until(lambda: len(heard.pages) > count)
        await heard.feed.close()

    lived(story)


def test_who_leads_nothing_reads_so_instead_of_a_page() -> None:
    async def story(api: RunningApi) -> None:
        heard = Heard(api, who="ana")
        await heard.feed.first()
        assert heard.pages == []
        assert heard.troubles
        await heard.feed.close()

    lived(story)


def test_wishes_go_to_the_service_and_its_refusals_come_back() -> None:
    async def story(api: RunningApi) -> None:
        heard = Heard(api)
        wish = {"kind": "drain", "queue": "default", "reason": "New driver"}
        seen = await heard.feed.what_if(wish)
        assert isinstance(seen, dict)
        assert seen["headline"] == "Nothing changes at once."
        made = await heard.feed.change(wish)
        assert isinstance(made, dict)
        back = await heard.feed.undo({"number": made["id"], "reason": "Done"})
        assert isinstance(back, dict)
        assert back["ended_why"] == "Done"
        csv = await heard.feed.csv({"table": "changes"})
        assert isinstance(csv, dict)
        assert "New driver" in csv["text"]
        for ask in (heard.feed.change({"kind": "drop tables"}), heard.feed.csv({"table": "../x"})):
            with pytest.raises(KaiRequestError):
                await ask
        await heard.feed.close()

    lived(story)


def test_a_service_that_goes_is_told_and_heard_again_when_it_is_back() -> None:
    async def story() -> None:
        with running_api() as api:
            heard = Heard(api)
            heard.feed.look()
            await heard.until(lambda: bool(heard.pages))
        await heard.until(lambda: bool(heard.troubles) and heard.troubles[-1] != "")
        await heard.feed.close()

    asyncio.run(story())


def test_the_widget_knows_five_messages_and_ignores_the_rest() -> None:
    from kai_jupyter.widgets.team import TeamBoard

    async def story(api: RunningApi) -> None:
        client = AsyncKaiClient(Endpoint(url=api.url, token="root-token"))
        board = TeamBoard(client)
        sent: list[Any] = []
        board.send = sent.append  # type: ignore[method-assign]
        await board.feed.first()
        assert board.view["title"] == "Queue default"
        assert board.text == "Queue default: ."
        shown = board._repr_mimebundle_()  # L092: a saved page is readable without the widget
        data = shown[0] if isinstance(shown, tuple) else shown
        assert data["text/plain"] == board.text
        for message in ({"kind": "run", "code": "1/0"}, {"kind": "__class__"}, "look", None, 7):
            board._take(board, message, [])
        assert not board._answering
        board._take(board, {"kind": "csv", "id": "1", "ask": {"table": "people"}}, [])
        board._take(board, {"kind": "undo", "id": "2", "ask": {"number": "x"}}, [])
        async with asyncio.timeout(FAIL_SAFE_S):
            while len(sent) < 2:  # noqa: ASYNC110 - observed, not told
                await asyncio.sleep(0.01)
        by_id = {message["id"]: message for message in sent}
        assert by_id["1"]["data"]["name"] == "kai-people.csv"
        assert by_id["2"]["trouble"]
        await board.feed.close()

    lived(story)
