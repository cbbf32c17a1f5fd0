"""The client: found or started once, errors as sentences, the same on both sides, streams that resume."""

import asyncio
import inspect
import os
import subprocess
import sys

import pytest

from kai_jupyter import finding
from kai_jupyter.async_client import AsyncKaiClient
from kai_jupyter.client import (
    Endpoint,
    KaiClient,
    KaiRequestError,
    ServiceUnreachable,
    find_service,
)
from kai_jupyter.errors import sentence_of
from kai_jupyter.sse import EventReader
from scheduler_service.wire import locate
from scheduler_service.wire.pod_group import Submit
from scheduler_service.wire.problem import Problem
from tests.fakes.api_server import ANA, running_api
from tests.jupyter.conftest import eventually, start_service


@pytest.fixture(scope="module")
def api():
    with running_api() as running:
        yield running


def as_(api, token):
    return KaiClient(Endpoint(url=api.url, token=token))


def test_both_clients_offer_the_same(api):
    blocking = {n for n, _ in inspect.getmembers(KaiClient, inspect.isfunction) if n[0] != "_"}
    waiting = {n for n, _ in inspect.getmembers(AsyncKaiClient, inspect.isfunction) if n[0] != "_"}

    assert blocking - waiting == set()
    assert waiting - blocking == {
        "connect",
        "ensure_runner",
        "events_json",
        "forget",
        "raw",
        "team_pages",
    }


def test_a_round_of_requests(api):
    with as_(api, "ana-token") as client:
        made = client.submit(Submit(name="round", gpu="0.5"), idempotency_key="k1")
        again = client.submit(Submit(name="round", gpu="0.5"), idempotency_key="k1")

        assert (made.name, again.name) == ("round", "round")
        assert client.group("ana", "round").name == "round"
        assert [g.name for g in client.groups(mine=True).items] == ["round"]
        assert client.extend("ana", "round", by_s=60).expires_at
        assert client.explain("ana", "round").name == "round"
        assert client.forecast(gpu="0.5").verdict == "now"
        assert client.queues()[0].name == "default"
        assert client.nodes()[0].simulated
        assert client.cycles(last=1)
        assert client.health().ok
        assert client.me().user == "ana"
        assert client.upload_payload(b"abc").size == 3
        assert client.cancel("ana", "round").state == "Cancelled"
        assert list(client.follow_logs("ana", "round")) == []


def test_the_same_asynchronously(api):
    async def go():
        async with AsyncKaiClient(Endpoint(url=api.url, token="ana-token")) as client:
            made = await client.submit(Submit(name="async", gpu="0.25"))
            event = await anext(client.events())
            await client.cancel("ana", "async")
            return made.name, event.kind, (await client.me()).user

    assert asyncio.run(go()) == ("async", "snapshot", "ana")


def test_another_user_sees_and_ends_nothing_of_mine(api):
    with as_(api, "ana-token") as ana, as_(api, "ben-token") as ben:
        ana.submit(Submit(name="private", gpu="0.25"))

        assert "private" not in [g.name for g in ben.groups().items]
        for attempt in (ben.group, ben.cancel, ben.explain, ben.logs, ben.result):
            with pytest.raises(KaiRequestError) as declined:
                attempt("ana", "private")
            assert declined.value.problem.status == 404
        ana.cancel("ana", "private")


def test_a_wrong_token_is_a_sentence(api):
    with as_(api, "stolen") as nobody, pytest.raises(KaiRequestError) as declined:
        nobody.queues()

    assert declined.value.problem.status == 401
    assert "does not know you" in str(declined.value)


def test_a_stream_resumes_where_it_ended(api):
    with as_(api, "ana-token") as client:
        first = next(iter(client.events()))
        api.call(api.scheduler.submit(ANA, Submit(name="news", gpu=0.25), idempotency_key=None))
        update = next(iter(client.events(since=first.rev)))

        assert (first.kind, update.kind) == ("snapshot", "update")
        assert [g.name for g in update.groups] == ["news"]


def test_no_service_is_a_sentence_with_what_to_do():
    with pytest.raises(ServiceUnreachable, match=r"does not run\. Start it with"):
        KaiClient(start=False)
    client = KaiClient(Endpoint(url="http://127.0.0.1:9", token="t"))
    with client, pytest.raises(ServiceUnreachable, match="The queue does not answer"):
        client.queues()


def test_a_token_is_never_sent_to_an_address_it_was_not_made_for(monkeypatch):
    monkeypatch.setenv("KAI_SERVICE_URL", "https://queue.example")

    with pytest.raises(ServiceUnreachable, match="KAI_TOKEN_FILE is not set"):
        find_service()


def test_on_a_hub_a_person_is_known_by_the_token_of_their_server(monkeypatch):
    monkeypatch.setenv("KAI_SERVICE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("KAI_IDENTITY", "hub")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-the-server")

    found = find_service()

    assert (found.url, found.token) == ("http://127.0.0.1:1", "of-the-server")


def test_an_unreadable_token_file_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("KAI_SERVICE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("KAI_TOKEN_FILE", str(tmp_path / "absent"))

    with pytest.raises(ServiceUnreachable, match="cannot be read"):
        find_service()


def test_a_service_that_cannot_start_tells_its_last_words(monkeypatch, state_dir):
    monkeypatch.setattr(finding, "_SERVE", "import sys; print('no room on the disk'); sys.exit(3)")

    with pytest.raises(ServiceUnreachable, match=r"exit code 3.*no room on the disk.*serve.log"):
        find_service()


@pytest.mark.process
def test_many_who_start_it_at_once_get_one_service(state_dir):
    """Three kernels and a server begin in the same second."""
    code = "from kai_jupyter.client import find_service; print(find_service().url)"
    environment = {**os.environ, "KAI_STATE_DIR": str(state_dir)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    found = {racer.communicate(timeout=120)[0] for racer in racers}
    lock = locate.read_lock(state_dir)

    assert found == {f"{lock.url}\n"}
    assert (state_dir / "token").stat().st_mode & 0o077 == 0
    os.kill(lock.pid, 15)
    eventually(lambda: locate.start_ticks(lock.pid) is None, "the service ends")


@pytest.mark.process
def test_a_client_finds_a_restarted_service_again(state_dir):
    first = start_service(state_dir)
    with KaiClient(start=False) as client:
        client.queues()
        first.stop()
        second = start_service(state_dir)

        assert client.queues()
        assert client.endpoint.url == second.endpoint.url
    second.stop()


def test_events_are_read_line_by_line():
    reader = EventReader()
    lines = [": beat", "id: 7", "data: {", "data: }", "", "", "data: x", ""]
    events = [event for line in lines if (event := reader.feed(line))]

    assert [(e.id, e.data) for e in events] == [("7", "{\n}"), ("7", "x")]


def test_a_problem_is_told_once():
    problem = Problem(
        type="about:blank",
        title="Cannot fit",
        status=422,
        detail="Cannot fit: too big.",
        hint="Ask less",
        code="x",
    )

    assert sentence_of(problem) == "Cannot fit: too big. Ask less."
