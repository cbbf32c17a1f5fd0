"""Log lines of a cluster: each taken once, whatever comes again; and who may read them."""

from __future__ import annotations

import asyncio

import pytest

from scheduler_service.ports import LogAsk, RefusedRequest
from scheduler_service.service.cluster_log_lines import MOST_LINES, GroupLog, moment_ns
from tests.fakes.cluster_service import ClusterStage
from tests.fakes.kube_server import Answer
from tests.unit.service.cluster.test_what_is_seen import ANA, told

LOG = "GET /api/v1/namespaces/a/pods/train-0/log"


def line(second: int, text: str, part: str = "000000001") -> str:
    return f"2026-01-05T08:05:{second:02}.{part}Z {text}\n"


def texts(kept: GroupLog, after: int = 0) -> list[str]:
    return [one.text for one in kept.page(rank=None, after=after, tail=None, ended=False).lines]


def test_what_comes_again_is_taken_once() -> None:
    kept = GroupLog()
    kept.take({(0, "u"): line(1, "a") + line(2, "b")})
    kept.take({(0, "u"): line(2, "b") + line(2, "b") + line(3, "c")})
    assert texts(kept) == ["a", "b", "b", "c"]
    kept.take({(0, "u"): line(2, "b") + line(2, "b") + line(3, "c")})
    assert texts(kept, after=4) == []


def test_lines_of_several_pods_come_in_the_order_of_their_moments() -> None:
    kept = GroupLog()
    kept.take({(1, "v"): line(2, "one"), (0, "u"): line(1, "zero") + line(3, "last")})
    page = kept.page(rank=None, after=0, tail=None, ended=False)
    assert [(one.rank, one.text, one.seq) for one in page.lines] == [
        (0, "zero", 0),
        (1, "one", 0),
        (0, "last", 1),
    ]
    assert texts(kept, after=2) == ["last"]
    assert kept.page(rank=0, after=0, tail=1, ended=True).lines[0].text == "last"


def test_a_late_line_of_a_slow_node_is_not_lost() -> None:
    """Its moment lies before what was read already; it arrived later, so it comes later."""
    kept = GroupLog()
    kept.take({(0, "u"): line(5, "early bird")})
    kept.take({(1, "v"): line(1, "slow clock")})
    assert texts(kept, after=1) == ["slow clock"]


def test_it_is_asked_from_the_second_on_that_was_read_last() -> None:
    kept = GroupLog()
    assert kept.since("u") is None
    kept.take({(0, "u"): line(7, "x", "999999999")})
    assert moment_ns(kept.since("u") or "") == moment_ns("2026-01-05T08:05:07Z")


def test_it_is_bounded_and_says_what_fell_out() -> None:
    kept = GroupLog()
    kept.take({(0, "u"): "".join(line(1, str(i), f"{i:09}") for i in range(MOST_LINES + 10))})
    page = kept.page(rank=None, after=0, tail=None, ended=False)
    assert (len(page.lines), page.dropped, page.next) == (MOST_LINES, 10, MOST_LINES + 10)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T01:00:01.000000002+01:00", 1_000_000_002),
        ("Traceback", None),
        ("1970-01-01T00:00:01", None),
        ("", None),
    ],
)
def test_moments_are_read_to_the_nanosecond(text: str, ns: int | None) -> None:
    assert moment_ns(text) == ns


def test_a_log_is_read_through_the_api_by_who_may_read_it() -> None:
    async def story(stage: ClusterStage) -> None:
        await stage.ask("train")
        await stage.start("train")
        stage.answers[LOG] = Answer(line(1, "hello").encode())
        with pytest.raises(RefusedRequest) as error:
            await stage.service.logs(ANA, "a", "train", LogAsk())
        assert error.value.problem.code == "not_allowed"
        stage.allowed = {("ana", "get", "pods")}
        stage.service.rights._known.clear()
        page = await stage.service.logs(ANA, "a", "train", LogAsk())
        assert ([one.text for one in page.lines], page.next, page.ended) == (["hello"], 1, False)
        asked = next(seen for seen in stage.server.seen if seen.path.endswith("/log"))
        assert (asked.query["timestamps"], asked.query["container"]) == ("true", "c")

    told(story)


def test_where_the_service_itself_may_not_read_it_says_what_to_set() -> None:
    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "get", "pods")}
        await stage.ask("train")
        await stage.start("train")
        stage.answers[LOG] = Answer({"reason": "Forbidden", "code": 403}, 403)
        with pytest.raises(RefusedRequest) as error:
            await stage.service.logs(ANA, "a", "train", LogAsk())
        assert "submit.namespaces" in error.value.problem.hint

    told(story)


def test_a_reader_waits_for_the_first_new_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.service.cluster_logs.PACE_S", 0.01)

    async def story(stage: ClusterStage) -> None:
        stage.allowed = {("ana", "get", "pods")}
        await stage.ask("train")
        await stage.start("train")
        stage.answers[LOG] = Answer(b"")
        reading = asyncio.create_task(
            stage.service.logs(ANA, "a", "train", LogAsk(after=0, wait_s=30))
        )
        before = len(stage.server.seen)
        await stage.server.asked(before + 2)  # the right, and the log once
        stage.answers[LOG] = Answer(line(1, "now").encode())
        assert [one.text for one in (await reading).lines] == ["now"]

    told(story)
