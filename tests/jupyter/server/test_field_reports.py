"""Field reports about server extensions: L082 a slow service, L083 a hub in front, L123 no rights of others."""

import asyncio
import contextlib
import json

import pytest
from tornado.httpclient import HTTPClientError

from kai_jupyter.handlers import GROUP_WRITES, READS
from tests.fakes.api_server import running_api
from tests.jupyter.server.conftest import until

SLOW_CALLS = 8
"""The client of these tests makes ten requests at a time; two are left for what must answer."""
ASK = {"kind": "lease", "gpu": "0.5", "name": "mine", "process": {"pid": 1, "start_ticks": 1}}


class TestServiceThatNeverAnswers:
    """L082: it takes connections and says nothing. That the server of the fixture started at all is half the test."""

    @pytest.fixture
    def silent(self, jp_asyncio_loop):
        writers = []

        async def hear(_reader, writer):
            writers.append(writer)

        server = jp_asyncio_loop.run_until_complete(asyncio.start_server(hear, "127.0.0.1", 0))
        server.connections = writers
        yield server
        server.close()
        for writer in writers:
            writer.close()
        jp_asyncio_loop.run_until_complete(server.wait_closed())

    @pytest.fixture
    def extension_config(self, silent, tmp_path):
        (tmp_path / "token").write_text("t")
        port = silent.sockets[0].getsockname()[1]
        config = {"service_url": f"http://127.0.0.1:{port}", "token_file": str(tmp_path / "token")}
        return {"KaiExtensionApp": config}

    async def test_everything_else_answers_while_it_is_waited_for(self, jp_fetch, silent):
        calls = [
            asyncio.ensure_future(jp_fetch("kai", "queues", request_timeout=300))
            for _ in range(SLOW_CALLS)
        ]
        await until(lambda: len(silent.connections) >= SLOW_CALLS, "the service is asked")

        for path in ("contents", "kernels", "status"):
            assert (await jp_fetch("api", path)).code == 200
        told = json.loads((await jp_fetch("kai", "health")).body)

        assert not any(call.done() for call in calls)
        assert (told["connected"], told["service"]) == (False, None)
        for writer in silent.connections:
            writer.close()
        for call in calls:
            with contextlib.suppress(HTTPClientError):
                await call


@pytest.fixture
def api():
    with running_api() as running:
        yield running


class TestBehindAPrefix:
    """L083: all of it lies under the base URL, and nothing changes for who merely has the cookie."""

    @pytest.fixture
    def extension_config(self, api, tmp_path):
        (tmp_path / "token").write_text("ana-token")
        return {
            "KaiExtensionApp": {"service_url": api.url, "token_file": str(tmp_path / "token")},
            "ServerApp": {"base_url": "/user/ann/"},
        }

    @pytest.fixture
    def jp_base_url(self):
        return "/user/ann/"

    async def test_no_route_lies_outside(self, jp_serverapp, http_server_client):
        for path in (*READS, "health", "stream"):
            answer = await http_server_client.fetch(
                f"/kai/{path}",
                headers={"Authorization": f"token {jp_serverapp.identity_provider.token}"},
                follow_redirects=False,
                raise_error=False,
            )
            told = (answer.code, answer.headers.get("Location", ""))
            assert told in {(404, ""), (302, f"/user/ann/kai/{path}")}

    @pytest.mark.parametrize(
        "path", ["pod-groups", *(f"pod-groups/ana/mine/{write}" for write in GROUP_WRITES)]
    )
    async def test_a_forged_click_changes_nothing(self, jp_serverapp, http_server_client, path):
        """When another page of the same browser sends a form here."""
        cookies = await signed_in(http_server_client, jp_serverapp.identity_provider.token)
        with pytest.raises(HTTPClientError) as declined:
            await http_server_client.fetch(
                f"/user/ann/kai/{path}",
                method="POST",
                body="{}",
                headers={"Cookie": cookie(cookies)},
            )
        assert declined.value.code == 403

    async def test_the_page_itself_may(self, jp_serverapp, http_server_client):
        cookies = await signed_in(http_server_client, jp_serverapp.identity_provider.token)
        answer = await http_server_client.fetch(
            "/user/ann/kai/pod-groups",
            method="POST",
            body=json.dumps(ASK),
            headers={"Cookie": cookie(cookies), "X-XSRFToken": cookies["_xsrf"]},
        )
        assert answer.code == 201


async def signed_in(client, token):
    """Return what the page's browser has after it signed in: the session's cookie and the mark against forgery."""
    found = {}
    for path in ("/user/ann/login", f"/user/ann/api/status?token={token}"):
        answer = await client.fetch(
            path, headers={"Cookie": cookie(found)}, follow_redirects=False, raise_error=False
        )
        for line in answer.headers.get_list("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            found[name] = value
    assert "_xsrf" in found
    return found


def cookie(found):
    return "; ".join(f"{name}={value}" for name, value in found.items())
