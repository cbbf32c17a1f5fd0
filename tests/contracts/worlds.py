"""The worlds that the backend contract is tried in. A new backend adds a class here and nothing else."""

from __future__ import annotations

from pathlib import Path

from scheduler_service.backends.local.cluster import LocalCluster
from scheduler_service.model.gpu import GpuShare, WholeGpus
from scheduler_service.model.pod import PodRequest
from scheduler_service.ports import Backend
from scheduler_service.store import life
from scheduler_service.store.database import open_database
from scheduler_service.store.groups import Groups
from scheduler_service.store.records import GroupRecord, PodRecord
from scheduler_service.wire.pod_group import Submit
from scheduler_service.wire.runner import Report
from tests.fakes.machine import MORNING, machine

DEVICES = ("GPU-sim-0", "GPU-sim-1")


class LocalWorld:
    """This machine: the store is where a group is asked for, a runner's report is how a pod starts and ends."""

    node = "node-0"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.groups = self._open()
        self.backend: Backend = LocalCluster(self.groups, lambda _held: machine())

    def _open(self) -> Groups:
        path = self._folder / "kai.db"
        return Groups(open_database(path).connection, path)

    def again(self) -> LocalWorld:
        """Return the same world as a new process finds it."""
        return LocalWorld(self._folder)

    def ask(self, name: str, *, workers: int = 1) -> None:
        """Ask for a group of pods of one GPU each."""
        record = GroupRecord(
            namespace="ana",
            name=name,
            owner="ana",
            queue="default",
            ask=Submit(kind="gang" if workers > 1 else "lease"),
            request=PodRequest(gpu=WholeGpus(1)),
            min_members=workers,
            priority=50,
            preemptible=True,
            created_at=MORNING,
            order=self.groups.next_order(),
            pods=tuple(PodRecord(rank=rank) for rank in range(workers)),
        )
        self.groups.put(record)

    def share(self, number: int) -> GpuShare:
        """Return a whole device."""
        return GpuShare(DEVICES[number], 1000, 24 * 1024)

    def pod(self, name: str, rank: int = 0) -> str:
        """Return the key of a pod."""
        return f"ana/{name}-{rank}"

    def starts(self, name: str, rank: int = 0) -> None:
        """Let a bound pod start."""
        self._report(name, rank, "started")

    def ends(self, name: str, rank: int = 0) -> None:
        """Let a pod end."""
        self._report(name, rank, "ended")

    def _report(self, name: str, rank: int, kind: str) -> None:
        record = self.groups.find(f"ana/{name}")
        assert record is not None
        report = Report(
            incarnation=record.pods[rank].incarnation or "",
            kind="started" if kind == "started" else "ended",
            at=MORNING,
            exit_code=0,
        )
        change = life.started if kind == "started" else life.ended
        self.groups.put(change(record, rank, report, MORNING))
