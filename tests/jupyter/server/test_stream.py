"""`kai/stream`: snapshot, then changes; hidden pages, lost services, transitions on the event bus."""

import asyncio
import json

import pytest
from tornado.httpclient import HTTPClientError

from kai_jupyter.extension import EVENT_SCHEMA
from kai_jupyter.relay import QUEUE_LENGTH, Known, Relay, Subscription
from scheduler_service.wire.pod_group import Submit
from tests.fakes.api_server import ANA, running_api
from tests.jupyter.server.conftest import message, until


@pytest.fixture
def api():
    with running_api() as running:
        yield running


@pytest.fixture
def extension_config(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("ana-token")
    return {"KaiExtensionApp": {"service_url": api.url, "token_file": str(token)}}


def submit(api, name, gpu=0.5):
    return api.call(api.scheduler.submit(ANA, Submit(name=name, gpu=gpu), idempotency_key=None))


async def test_a_page_gets_a_snapshot_and_then_what_changes(jp_ws_fetch, api, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    page = await jp_ws_fetch("kai", "stream")
    first = await message(page, "snapshot")
    submit(api, "train")
    change = await message(page, "update")

    assert first["groups"] == []
    assert first["queues"][0]["name"] == "default"
    assert [g["name"] for g in change["groups"]] == ["train"]
    assert change["rev"] > first["rev"]
    page.close()


async def test_many_pages_share_one_stream(jp_ws_fetch, api, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    pages = [await jp_ws_fetch("kai", "stream") for _ in range(5)]
    for page in pages:
        await message(page, "snapshot")
    submit(api, "train")
    for page in pages:
        assert (await message(page, "update"))["groups"][0]["name"] == "train"

    assert api.app.state.activity.open_streams == 1
    for page in pages:
        page.close()


async def test_a_warning_of_the_hub_reaches_the_page(jp_ws_fetch, jp_fetch, api, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    page = await jp_ws_fetch("kai", "stream")
    await message(page, "snapshot")
    text = "Idle for 30 min: in 30 min this server is stopped."
    answer = await jp_fetch("kai", "notices", method="POST", body=json.dumps({"text": text}))
    told = await message(page, "update")

    assert answer.code == 204
    assert [(notice["kind"], notice["text"]) for notice in told["notices"]] == [("idle", text)]
    assert told["rev"] == kai.relay.known.rev
    submit(api, "train")
    assert set(told) == set(await message(page, "update")), "the page checks the shape"
    page.close()


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": 1}, {"text": "x" * 501}])
async def test_a_warning_is_a_short_text(jp_fetch, api, kai, body):
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("kai", "notices", method="POST", body=json.dumps(body))
    assert refused.value.code == 400


async def test_a_hidden_page_hears_nothing_and_a_snapshot_on_return(jp_ws_fetch, api, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    page = await jp_ws_fetch("kai", "stream")
    await message(page, "snapshot")
    await page.write_message(json.dumps({"kind": "pause"}))
    await until(lambda: all(p._is_paused for p in kai.relay._pages), "the page is paused")
    for name in ("one", "two"):
        submit(api, name)
    await until(lambda: len(kai.relay.known.groups) == 2, "the server knows both")
    await page.write_message(json.dumps({"kind": "resume"}))

    told = json.loads(await page.read_message())
    assert told["kind"] == "snapshot"
    assert {g["name"] for g in told["groups"]} == {"one", "two"}
    page.close()


async def test_nonsense_from_a_page_changes_nothing(jp_ws_fetch, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    page = await jp_ws_fetch("kai", "stream")
    await message(page, "snapshot")
    for nonsense in ("{", "[]", '"x"', '{"kind": 3}'):
        await page.write_message(nonsense)
    await page.write_message(json.dumps({"kind": "resume"}))

    assert (await message(page, "snapshot"))["kind"] == "snapshot"
    page.close()


async def test_transitions_are_events_of_the_server(jp_serverapp, api, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    heard = []

    async def listen(logger, schema_id, data):
        heard.append(data)

    jp_serverapp.event_logger.add_listener(schema_id=EVENT_SCHEMA, listener=listen)
    submit(api, "train")
    await until(lambda: "ana/train" in kai.relay.known.groups, "the server knows it")
    api.call(api.scheduler.cancel(ANA, "ana", "train", None))
    await until(lambda: [d for d in heard if d["state"] == "Cancelled"], "the event")

    last = heard[-1]
    assert (last["name"], last["state"]) == ("train", "Cancelled")
    assert last["previous_state"] in ("Waiting", "Starting", "Running")
    assert last["sentence"]


class TestServiceThatComesAndGoes:
    @pytest.fixture
    def api(self):
        """No service yet."""

    @pytest.fixture
    def extension_config(self, tmp_path, monkeypatch):
        return {"KaiExtensionApp": {"start_service": False}}

    async def test_a_page_is_told_at_once_and_again_when_it_is_back(
        self, jp_ws_fetch, kai, tmp_path, state_dir
    ):
        """The service is started later, at an address nobody knew: the server finds it by its lock file."""
        from tests.jupyter.conftest import start_service

        page = await jp_ws_fetch("kai", "stream")
        told = await message(page, "offline")
        assert told["since"] is None
        while "does not run" not in told["text"]:
            told = await message(page, "offline")
        service = await asyncio.to_thread(start_service, state_dir)
        await page.write_message(json.dumps({"kind": "retry"}))
        assert (await message(page, "snapshot"))["nodes"]

        await asyncio.to_thread(service.stop)
        told = await message(page, "offline")
        assert told["since"] is not None
        page.close()


def test_a_page_that_falls_behind_gets_a_snapshot_in_place_of_its_backlog():
    relay = Relay(None)
    relay._offline = None
    page = Subscription(relay)
    for number in range(QUEUE_LENGTH + 1):
        page.push({"kind": "update", "rev": number})

    async def next_message():
        return await page.next()

    assert page._queue.qsize() == 1
    assert asyncio.run(next_message())["kind"] == "snapshot"


def test_what_is_known_follows_updates_and_removals():
    known = Known()
    known.take(
        {
            "kind": "snapshot",
            "rev": 1,
            "now": 5,
            "groups": [_group("a", "Waiting")],
            "queues": [1],
            "nodes": [2],
        }
    )
    moved = known.take(
        {
            "kind": "update",
            "rev": 2,
            "now": 6,
            "groups": [_group("a", "Running"), _group("b", "Waiting")],
            "removed": [],
        }
    )
    known.take(
        {"kind": "update", "rev": 3, "now": 7, "groups": [], "removed": ["ana/b"], "nodes": [3]}
    )

    assert [(g["name"], before) for g, before in moved] == [("a", "Waiting"), ("b", None)]
    assert (list(known.groups), known.queues, known.nodes, known.rev) == (["ana/a"], [1], [3], 3)


def _group(name, state):
    return {"namespace": "ana", "name": name, "state": state, "kind": "lease"}
