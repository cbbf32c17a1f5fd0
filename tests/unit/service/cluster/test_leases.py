"""Leases with an end in a cluster: moved, told before it comes, and kept; and files whose retention is over."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.ports import Caller, RefusedRequest
from scheduler_service.store.files import FileStore
from scheduler_service.wire.pod_group import Extend
from tests.fakes.cluster_service import ClusterStage
from tests.fakes.kube_server import Answer
from tests.unit.kubernetes.objects import group
from tests.unit.service.cluster.test_what_is_seen import EVE, told

BEN = Caller("ben")
PATH = "/apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups/mine"
GRANTED = 5 * 60_000
"""After the stage's beginning."""
LASTS_S = 600


class Ends:
    """A creator that remembers what it ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str, str]] = []

    async def create(self, *_: object) -> Any:
        raise AssertionError

    async def end(self, namespace: str, name: str, reason: str) -> None:
        self.ended.append((namespace, name, reason))


async def leased(stage: ClusterStage, kind: str = "lease", lasts_s: int | None = LASTS_S) -> Ends:
    """Have Ben hold a device for ten minutes, from five past."""
    asked: dict[str, Any] = {"kind": kind, "gpu": 1, "queue": "q"}
    if lasts_s is not None:
        asked["lease_s"] = lasts_s
    notes = {"kai.scheduler/owner": "ben", "kai.scheduler/asked": json.dumps(asked)}
    stage.allowed = {("ben", "create", "pods")}
    await stage.ask("mine", annotations=notes)
    await stage.start("mine")
    stage.service.creator = ends = Ends()

    versions = itertools.count(900)

    def patched(body: dict[str, Any]) -> dict[str, Any]:
        made = group("mine", minMember=1, annotations={**notes, **body["metadata"]["annotations"]})
        made["metadata"]["resourceVersion"] = str(next(versions))
        return made

    judge = stage.server.judge

    def answer(seen: Any) -> Answer | None:
        if (seen.method, seen.path) == ("PATCH", PATH):
            return Answer(patched(json.loads(seen.body)), 200)
        return None if judge is None else judge(seen)

    stage.server.judge = answer
    return ends


def test_its_end_is_moved_and_stays_moved() -> None:
    async def story(stage: ClusterStage) -> None:
        await leased(stage)
        begin = stage.now
        view = await stage.service.extend(BEN, "a", "mine", Extend(by_s=300))
        assert view.expires_at == begin + GRANTED + 900_000
        again = await stage.service.group(BEN, "a", "mine")
        assert again.expires_at == view.expires_at, "as its object says it now"
        kept = await stage.service.extend(BEN, "a", "mine", Extend())
        assert kept.expires_at is None
        assert (await stage.service.group(BEN, "a", "mine")).expires_at is None

    told(story)


@pytest.mark.parametrize(
    ("kind", "lasts_s", "by_s", "code"),
    [
        ("lease", None, 60, "no_end"),
        ("lease", LASTS_S, 0, "bad_time"),
        ("batch", LASTS_S, 60, "not_a_lease"),
    ],
)
def test_what_can_not_be_moved_is_said(
    kind: str, lasts_s: int | None, by_s: int, code: str
) -> None:
    async def story(stage: ClusterStage) -> None:
        await leased(stage, kind, lasts_s)
        with pytest.raises(RefusedRequest) as error:
            await stage.service.extend(BEN, "a", "mine", Extend(by_s=by_s))
        assert error.value.problem.code == code

    told(story)


def test_nobody_moves_the_end_of_anothers_lease() -> None:
    async def story(stage: ClusterStage) -> None:
        await leased(stage)
        with pytest.raises(RefusedRequest) as error:
            await stage.service.extend(EVE, "a", "mine", Extend(by_s=60))
        assert error.value.problem.status in {403, 404}

    told(story)


def test_an_end_is_told_before_it_comes_and_then_kept() -> None:
    async def story(stage: ClusterStage) -> None:
        ends = await leased(stage)
        await stage.service.end_leases()
        assert stage.service._told_ending == set()
        stage.now += GRANTED + (LASTS_S - 60) * 1000
        for _ in range(2):
            await stage.service.end_leases()
        assert len(stage.service._told_ending) == 1
        assert ends.ended == []
        stage.now += 60_000
        for _ in range(2):
            await stage.service.end_leases()
        assert ends.ended == [("a", "mine", "Its time is over.")], "once"
        view = await stage.service.group(BEN, "a", "mine")
        assert view.state == "Stopping"

    told(story)


def test_a_batch_ends_by_its_pods_own_deadline() -> None:
    async def story(stage: ClusterStage) -> None:
        ends = await leased(stage, "batch")
        stage.now += GRANTED + 2 * LASTS_S * 1000
        await stage.service.end_leases()
        assert ends.ended == []

    told(story)


def test_old_files_go_but_for_those_that_a_group_names(tmp_path: Path) -> None:
    async def story(stage: ClusterStage) -> None:
        files = FileStore(f"file://{tmp_path}/kept", tmp_path / "scratch")
        day_s = 86_400
        for name, age_days in (
            ("payloads/u/old", 20),
            ("payloads/u/named", 20),
            ("payloads/u/new", 1),
            ("results/old", 20),
            ("results/new", 1),
        ):
            path = tmp_path / "kept" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
            at = stage.now / 1000 - age_days * day_s
            os.utime(path, (at, at))
        stage.service.__dict__["files"] = files
        notes = {"kai.scheduler/owner": "ben", "kai.scheduler/payload": "named"}
        await stage.ask("holds", annotations=notes)
        await stage.service.forget_files()
        left = {str(p.relative_to(tmp_path / "kept")) for p in (tmp_path / "kept").rglob("*")}
        assert left == {
            *("payloads", "payloads/u", "payloads/u/named", "payloads/u/new"),
            *("results", "results/new"),
        }

    told(story)
