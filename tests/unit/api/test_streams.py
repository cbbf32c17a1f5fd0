"""The event stream and followed logs, over a real socket: resume, gap, end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from scheduler_service.wire import pod_group, runner
from tests.fakes.api_server import ANA, BEN, running_api
from tests.fakes.processes import until

PATIENCE = httpx.Timeout(30.0)


@pytest.fixture
def api():
    with running_api() as running:
        yield running


@pytest.fixture
def http(api):
    headers = {"Authorization": "Bearer ana-token"}
    with httpx.Client(
        base_url=f"{api.url}/api/v1", headers=headers, timeout=PATIENCE, trust_env=False
    ) as client:
        yield client


def ask(api, name: str, *, caller=ANA, gpu: str = "0.5", work=None) -> pod_group.PodGroupView:
    submit = pod_group.Submit(name=name, gpu=gpu, work=work)
    return api.call(api.scheduler.submit(caller, submit, idempotency_key=None))[0]


def messages(lines: Iterator[str]) -> Iterator[tuple[int | None, str | None, dict]]:
    """Yield (id, event, data) of each message."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif "data" in found:
            number = int(found["id"]) if "id" in found else None
            yield number, found.get("event"), json.loads(found["data"])
            found = {}
        else:
            found = {}


def test_a_stream_begins_with_all_and_goes_on_with_what_changes(api, http):
    ask(api, "first")
    with http.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = messages(answer.iter_lines())
        number, _, snapshot = next(stream)
        assert snapshot["kind"] == "snapshot"
        assert [group["name"] for group in snapshot["groups"]] == ["first"]
        ask(api, "second")
        later, _, update = next(stream)
    assert update["kind"] == "update"
    assert [group["name"] for group in update["groups"]] == ["second"]
    assert later == update["rev"] > number


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(api, http):
    """When a laptop slept: the page sends the last id it saw."""
    ask(api, "first")
    seen = api.scheduler.rev
    ask(api, "second")
    with http.stream("GET", "/events", headers={"Last-Event-ID": str(seen)}) as answer:
        _, _, missed = next(messages(answer.iter_lines()))
    assert missed["kind"] == "update"
    assert [group["name"] for group in missed["groups"]] == ["second"]


@pytest.mark.parametrize("since", ["1", "9000000000", "junk"])
def test_a_gap_gives_everything_again(api, http, since):
    """When too much happened meanwhile, or the service was restarted and counts from anew."""
    api.scheduler.history_limit = 2
    for number in range(5):
        ask(api, f"group-{number}", gpu="0.1")
    with http.stream("GET", "/events", headers={"Last-Event-ID": since}) as answer:
        _, _, first = next(messages(answer.iter_lines()))
    assert first["kind"] == "snapshot"
    assert len(first["groups"]) == 5


def test_a_stream_tells_nothing_of_other_peoples_groups(api, http):
    with http.stream("GET", "/events") as answer:
        stream = messages(answer.iter_lines())
        next(stream)
        ask(api, "bens", caller=BEN)
        ask(api, "anas")
        _, _, update = next(stream)
    assert [group["name"] for group in update["groups"]] == ["anas"]


def test_streams_and_long_polls_end_when_the_service_closes(api, http):
    """When the service is stopped while pages listen and runners wait: nobody is kept, nobody hangs."""
    waiting: list[httpx.Response] = []

    def poll() -> None:
        query = {"runner": "r", "wait_s": "30"}
        headers = {"Authorization": "Bearer ben-token"}  # nothing is granted to ben: it waits
        url = f"{api.url}/api/v1/runner/orders"
        waiting.append(httpx.get(url, params=query, headers=headers, timeout=60, trust_env=False))

    poller = threading.Thread(target=poll)
    with http.stream("GET", "/events") as answer:
        stream = messages(answer.iter_lines())
        next(stream)
        poller.start()
        ask(api, "seen")  # answered once the stream passes it on, so the stream is really open
        next(stream)
        until(lambda: api.scheduler.polled, "the poll")
        api.begin_stop()
        assert list(stream) == []
    poller.join(timeout=60)
    api.join()
    assert not poller.is_alive()
    assert waiting[0].json()["exit"] is True


def test_an_open_stream_counts_as_a_client(api, http):
    with http.stream("GET", "/events") as answer:
        stream = messages(answer.iter_lines())  # kept: httpx hangs up when its lines are forgotten
        next(stream)
        assert api.app.state.activity.open_streams == 1
        assert api.app.state.activity.idle_s() == 0


def lines_of(*texts: str, start: int = 0) -> runner.LogChunk:
    lines = tuple(
        runner.LogLine(seq=start + n, at=0, rank=0, stream="stdout", text=text)
        for n, text in enumerate(texts)
    )
    return runner.LogChunk(lines=lines)


def running_work(api) -> str:
    view = ask(api, "train", work=pod_group.Work(command=("train",)))
    return view.pods[0].incarnation


def test_followed_logs_come_line_by_line_and_say_when_it_is_over(api, http):
    incarnation = running_work(api)
    api.call(api.scheduler.append_logs(incarnation, lines_of("one", "two")))
    with http.stream("GET", "/pod-groups/ana/train/logs?follow=1") as answer:
        stream = messages(answer.iter_lines())
        assert [next(stream)[2]["text"] for _ in range(2)] == ["one", "two"]
        api.call(api.scheduler.append_logs(incarnation, lines_of("three", start=2)))
        number, _, third = next(stream)
        assert (number, third["text"]) == (3, "three")
        report = runner.Report(incarnation=incarnation, kind="ended", at=1, exit_code=0)
        api.call(api.scheduler.report(ANA, report))
        assert next(stream)[1] == "end"
        assert list(stream) == []


def test_followed_logs_resume_after_the_last_id(api, http):
    incarnation = running_work(api)
    api.call(api.scheduler.append_logs(incarnation, lines_of("one", "two", "three")))
    headers = {"Last-Event-ID": "2"}
    with http.stream("GET", "/pod-groups/ana/train/logs?follow=1", headers=headers) as answer:
        _, _, line = next(messages(answer.iter_lines()))
    assert line["text"] == "three"


def test_logs_of_an_unknown_request_are_a_sentence_before_any_stream(http):
    answer = http.get("/pod-groups/ana/nothing/logs?follow=1")
    assert answer.status_code == 404
    assert "ana/nothing" in answer.json()["title"]


def test_a_result_comes_with_its_signature_and_incarnation(api, http):
    incarnation = running_work(api)
    token = {"Authorization": f"Bearer token-of-{incarnation}", "X-Kai-Signature": "abc"}
    put = http.put(f"/runner/pods/{incarnation}/result", content=b"\x00pickle", headers=token)
    assert put.status_code == 204
    answer = http.get("/pod-groups/ana/train/result")
    assert answer.content == b"\x00pickle"
    assert answer.headers["x-kai-signature"] == "abc"
    assert answer.headers["x-kai-incarnation"] == incarnation


def test_a_runner_takes_work_through_its_life(api, http):
    """Claim, started, log line, ended: what a runner says is what the owner then sees."""
    incarnation = running_work(api)
    assert http.get("/runner/orders?runner=r").json()["claim"] is True
    claimed = http.post("/runner/claim", json={"runner": "r", "host": "h"}).json()
    assert [order["incarnation"] for order in claimed["starts"]] == [incarnation]
    started = {"incarnation": incarnation, "kind": "started", "at": 1, "pid": 1, "start_ticks": 1}
    assert http.post("/runner/report", json=started).status_code == 204
    assert http.get("/pod-groups/ana/train").json()["state"] == "Running"
    ended = {"incarnation": incarnation, "kind": "ended", "at": 2, "exit_code": 3}
    assert http.post("/runner/report", json=ended).status_code == 204
    assert http.get("/pod-groups/ana/train").json()["state"] == "Failed"
