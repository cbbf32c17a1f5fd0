"""`kai/…`: what a page may ask, with whose rights, and what it hears when the service is away or declines."""

import json

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from kai_jupyter.finding import Endpoint
from kai_jupyter.handlers import GROUP_WRITES, READS
from tests.fakes.api_server import running_api
from tests.jupyter.server.conftest import until


class ReadOnly(Authorizer):
    """Lets everybody look at the queue and nobody change it."""

    def is_authorized(self, handler, user, action, resource):
        return not (resource == "kai" and action != "read")


class NoKai(Authorizer):
    """Keeps the queue from everybody."""

    def is_authorized(self, handler, user, action, resource):
        return resource != "kai"


@pytest.fixture
def api():
    with running_api() as running:
        yield running


@pytest.fixture
def extension_config(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("ana-token")
    return {"KaiExtensionApp": {"service_url": api.url, "token_file": str(token)}}


ASK = {"kind": "lease", "gpu": "0.5", "name": "mine", "process": {"pid": 1, "start_ticks": 1}}


async def post(jp_fetch, *path, body=None, **options):
    return await jp_fetch("kai", *path, method="POST", body=json.dumps(body or {}), **options)


def refusal(error):
    return json.loads(error.value.response.body)


async def test_a_request_made_by_the_page_is_the_persons_own(jp_fetch):
    made = await post(jp_fetch, "pod-groups", body=ASK)
    listed = json.loads((await jp_fetch("kai", "pod-groups")).body)

    assert made.code == 201
    assert [(g["owner"], g["name"]) for g in listed["items"]] == [("ana", "mine")]
    one = json.loads((await jp_fetch("kai", "pod-groups", "ana", "mine")).body)
    assert one["name"] == "mine"


async def test_a_double_click_makes_one_request(jp_fetch):
    headers = {"Idempotency-Key": "click-1"}
    first = await post(jp_fetch, "pod-groups", body=ASK, headers=headers)
    second = await post(jp_fetch, "pod-groups", body=ASK, headers=headers)

    assert (first.code, second.code) == (201, 200)
    assert json.loads(first.body)["name"] == json.loads(second.body)["name"]


async def test_extend_cancel_logs_and_reasons_pass_through(jp_fetch):
    await post(jp_fetch, "pod-groups", body=ASK)
    extended = await post(jp_fetch, "pod-groups", "ana", "mine", "extend", body={"by_s": 60})
    reasons = await jp_fetch("kai", "pod-groups", "ana", "mine", "explain")
    logs = await jp_fetch("kai", "pod-groups", "ana", "mine", "logs", params={"tail": "5"})
    ended = await post(jp_fetch, "pod-groups", "ana", "mine", "cancel")

    assert json.loads(extended.body)["expires_at"]
    assert json.loads(reasons.body)["name"] == "mine"
    assert json.loads(logs.body)["lines"] == []
    assert json.loads(ended.body)["state"] == "Cancelled"


@pytest.mark.parametrize("path", [p for p in READS if p not in ("snapshot", "pod-groups")])
async def test_what_can_be_looked_at(jp_fetch, path):
    assert (await jp_fetch("kai", path)).code == 200


async def test_refusals_pass_through_with_the_sentence_for_the_page(jp_fetch):
    with pytest.raises(HTTPClientError) as declined:
        await jp_fetch("kai", "pod-groups", "ana", "nobody")

    told = refusal(declined)
    assert declined.value.code == 404
    assert told["code"] == "unknown_group"
    assert told["message"] == "There is no request 'ana/nobody'. 'kai status' lists yours."
    assert declined.value.response.headers["Content-Type"].startswith("application/problem+json")


async def test_another_persons_request_cannot_be_seen_or_ended(jp_fetch, api):
    """Ben's request, asked for by the server of ana: not found, as if it did not exist."""
    from scheduler_service.wire.pod_group import Submit
    from tests.fakes.api_server import BEN

    api.call(api.scheduler.submit(BEN, Submit(name="bens", gpu=0.5), idempotency_key=None))

    for verb in ("cancel", "extend", "move"):
        process = {"pid": 1, "start_ticks": 1}
        body = {"process": process, "kernel_id": "k"} if verb == "move" else {}
        with pytest.raises(HTTPClientError) as declined:
            await post(jp_fetch, "pod-groups", "ben", "bens", verb, body=body)
        assert declined.value.code == 404
    listed = json.loads((await jp_fetch("kai", "pod-groups")).body)
    assert listed["items"] == []


async def test_a_name_cannot_lead_out_of_its_place(jp_fetch):
    with pytest.raises(HTTPClientError) as declined:
        await jp_fetch("kai", "pod-groups", "ana", "..%2f..%2frunner%2forders")

    assert declined.value.code == 404


@pytest.mark.parametrize(
    "path", ["runner/orders", "payloads", "pod-groups/ana/mine/result", "metrics"]
)
async def test_the_rest_of_the_api_is_not_there_for_pages(jp_fetch, path):
    with pytest.raises(HTTPClientError) as declined:
        await jp_fetch("kai", *path.split("/"))

    assert declined.value.code in (404, 405)


@pytest.mark.parametrize(
    "path", [*READS, "health", "pod-groups/ana/mine", "pod-groups/ana/mine/logs"]
)
async def test_without_a_token_nothing_is_told(jp_fetch, path):
    with pytest.raises(HTTPClientError) as declined:
        await jp_fetch("kai", *path.split("/"), headers={"Authorization": ""})

    assert declined.value.code == 403


@pytest.mark.parametrize(
    "path", ["pod-groups", *(f"pod-groups/ana/mine/{w}" for w in GROUP_WRITES)]
)
async def test_without_a_token_nothing_is_changed(jp_fetch, path):
    with pytest.raises(HTTPClientError) as declined:
        await post(jp_fetch, *path.split("/"), headers={"Authorization": ""})

    assert declined.value.code == 403


class TestReadOnlyServer:
    @pytest.fixture
    def extension_config(self, extension_config):
        return {**extension_config, "ServerApp": {"authorizer_class": ReadOnly}}

    async def test_looking_is_allowed_and_changing_is_not(self, jp_fetch):
        assert (await jp_fetch("kai", "queues")).code == 200
        for path in (["pod-groups"], ["pod-groups", "ana", "mine", "cancel"]):
            with pytest.raises(HTTPClientError) as declined:
                await post(jp_fetch, *path, body=ASK)
            assert declined.value.code == 403


class TestClosedServer:
    @pytest.fixture
    def extension_config(self, extension_config):
        return {**extension_config, "ServerApp": {"authorizer_class": NoKai}}

    async def test_neither_rest_nor_socket_tells_anything(self, jp_fetch, jp_ws_fetch):
        for path in [*READS, "health"]:
            with pytest.raises(HTTPClientError) as declined:
                await jp_fetch("kai", path)
            assert declined.value.code == 403
        with pytest.raises(HTTPClientError) as declined:
            await jp_ws_fetch("kai", "stream")
        assert declined.value.code == 403


async def test_a_guest_in_a_shared_server_may_look_only(jp_fetch, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "ana")

    assert (await jp_fetch("kai", "queues")).code == 200
    with pytest.raises(HTTPClientError) as declined:
        await post(jp_fetch, "pod-groups", body=ASK)
    assert declined.value.code == 403


async def test_health_tells_the_chain_without_secrets(jp_fetch, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    answer = (await jp_fetch("kai", "health")).body.decode()

    told = json.loads(answer)
    assert told["connected"]
    assert told["pending_kernels"]
    assert told["service"]["ok"]
    assert "ana-token" not in answer


class TestServiceAway:
    @pytest.fixture
    def extension_config(self, tmp_path):
        (tmp_path / "token").write_text("t")
        config = {"service_url": "http://127.0.0.1:9", "token_file": str(tmp_path / "token")}
        return {"KaiExtensionApp": config}

    async def test_the_page_gets_502_with_a_sentence(self, jp_fetch):
        with pytest.raises(HTTPClientError) as declined:
            await jp_fetch("kai", "queues")

        told = refusal(declined)
        assert (declined.value.code, told["code"]) == (502, "service_unreachable")
        assert "The queue does not answer" in told["message"]
        assert "jupyter kai doctor" in told["message"]

    async def test_health_still_answers(self, jp_fetch):
        told = json.loads((await jp_fetch("kai", "health")).body)

        assert not told["connected"]
        assert told["service"] is None
        assert told["text"]


def test_an_endpoint_never_shows_its_token():
    assert "secret" not in repr(Endpoint(url="http://127.0.0.1:1", token="secret"))
