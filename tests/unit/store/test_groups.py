"""The records: on disk before anybody hears of them, all or none, told in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler_service.errors import BackendError
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, GpuShare, WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.model.reasons import PreemptedBy
from scheduler_service.store import life
from scheduler_service.store.database import open_database
from scheduler_service.store.groups import Groups
from scheduler_service.store.records import Ending, GroupRecord, PodRecord
from scheduler_service.wire.pod_group import Origin, Process, Submit, Work
from scheduler_service.wire.runner import Failure, Report


def record(name: str = "train", *, workers: int = 1, order: int = 1) -> GroupRecord:
    return GroupRecord(
        namespace="ana",
        name=name,
        owner="ana",
        queue="default",
        ask=Submit(work=Work(command=("true",), env={"A": "b"}), origin=Origin(notebook="x.ipynb")),
        request=PodRequest(milli_cpu=500, gpu=FractionOfGpu(500)),
        min_members=workers,
        priority=50,
        preemptible=True,
        created_at=1000,
        order=order,
        pods=tuple(PodRecord(rank=rank) for rank in range(workers)),
    )


def opened(folder: Path) -> Groups:
    path = folder / "kai.db"
    return Groups(open_database(path).connection, path)


@pytest.mark.parametrize("gpu", [None, WholeGpus(2), FractionOfGpu(250, 2), GpuMemory(8192)])
def test_everything_comes_back_as_it_was(tmp_path: Path, gpu: object) -> None:
    place = life.Place("node-0", (GpuShare("GPU-0", 500, 12288),), "inc-1")
    full = replace(record(), request=PodRequest(gpu=gpu), process=Process(pid=1, start_ticks=2))
    full = life.granted(full, {0: place}, 2000)
    report = Report(
        incarnation="inc-1",
        kind="ended",
        at=3000,
        exit_code=1,
        failure=Failure(message="m", traceback="t", cell_line=3, source="s"),
    )
    full = life.ended(full, 0, report, 3000)
    reason = PreemptedBy(group="ben/x", priority=100, victim_priority=50)
    full = replace(full, ending=Ending(how="evicted", at=3000, reason=reason, text=str(reason)))
    opened(tmp_path).put(full)
    assert opened(tmp_path).find("ana/train") == full


def test_a_failed_write_leaves_memory_disk_and_listeners_alone(tmp_path: Path) -> None:
    groups = opened(tmp_path)
    groups.put(record())
    heard: list[object] = []
    groups.subscribe(lambda before, after: heard.append((before, after)))
    groups._connection.execute("PRAGMA query_only=1")
    with pytest.raises(BackendError):
        groups.put(replace(record(), priority=70), record("second"))
    assert heard == []
    assert [r.priority for r in groups] == [50]
    assert len(opened(tmp_path)) == 1


def test_listeners_hear_in_order_also_of_changes_that_a_listener_makes(tmp_path: Path) -> None:
    groups = opened(tmp_path)
    heard: list[int] = []

    def raise_once(_before: GroupRecord | None, after: GroupRecord | None) -> None:
        if after is not None and after.priority == 50:
            groups.put(replace(after, priority=60))

    groups.subscribe(raise_once)
    groups.subscribe(lambda _before, after: heard.append(after.priority if after else -1))
    groups.put(record())
    assert heard == [50, 60]


def test_incarnations_are_found_while_they_are_present(tmp_path: Path) -> None:
    groups = opened(tmp_path)
    place = life.Place("node-0", (), "inc-1")
    granted = life.granted(record(), {0: place}, 1)
    groups.put(record())
    assert groups.find_incarnation("inc-1") is None
    groups.put(granted)
    assert groups.find_incarnation("inc-1") == (granted, 0)
    groups.put(record())
    assert groups.find_incarnation("inc-1") is None


def test_a_row_that_can_not_be_read_is_counted_and_the_others_live(tmp_path: Path) -> None:
    groups = opened(tmp_path)
    groups.put(record(), record("other", order=2))
    groups._connection.execute("UPDATE groups SET body = '{}' WHERE key = 'ana/train'")
    again = opened(tmp_path)
    assert (again.unreadable, [r.name for r in again]) == (1, ["other"])
    assert again.next_order() == 3


def test_keys_repeat_per_owner_and_are_forgotten_with_their_group(tmp_path: Path) -> None:
    groups = opened(tmp_path)
    groups.put(record(), idempotency=("ana", "k"))
    again = opened(tmp_path)
    assert again.find_repeat("ana", "k") == record()
    assert again.find_repeat("ben", "k") is None
    again.forget(["ana/train"])
    assert again.find_repeat("ana", "k") is None
    assert opened(tmp_path).find_repeat("ana", "k") is None
