"""A busy afternoon of three teams on 24 simulated GPUs: the real service behind the real API, in a thread of the test.

People are who their tokens say; their leases are held by the test's own process, which certainly lives.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from scheduler_service.agent.nvml import Devices, GpuState
from scheduler_service.api.app import create_app
from scheduler_service.api.authenticators import TokenAuthenticator
from scheduler_service.api.server import listen, serve
from scheduler_service.planning.cycle import plan
from scheduler_service.ports import ADMIN, READ, REQUEST, Caller
from scheduler_service.service import Parts, Service
from scheduler_service.settings.table import Settings
from scheduler_service.store.use_lately import QueueUse, Sample
from scheduler_service.wire.pod_group import Submit, Work
from scheduler_service.wire.runner import ClaimRequest, Report
from tests.fakes.machine import machine, own_process

T = TypeVar("T")
MINUTE = 60_000
QUEUES = """
queues:
  vision: {gpu: {quota: 24}}
  team-a: {parent: vision, gpu: {quota: 8}}
  team-b: {parent: vision, gpu: {quota: 6, limit: 14}, reclaim_min_runtime: 24h}
  annotation: {parent: vision, gpu: {quota: 4}}
  batch: {parent: vision, gpu: {quota: 6}}
policy:
  reserve_after_ms: 0
"""
NAMES = ("ben", "ivo", "kim", "lena", "maximiliane.oberhauser", "noor", "sweeps-nightly")
LEAD = Caller("mira", scopes=frozenset({READ, REQUEST, "lead:vision"}))
ROOT = Caller("root", scopes=frozenset({READ, REQUEST, ADMIN}))
PEOPLE = {name: Caller(name) for name in NAMES} | {"mira": LEAD, "root": ROOT}
TOKENS = {f"{name}-token": caller for name, caller in PEOPLE.items()}
HOLDS: tuple[tuple[str, str, str, float, int, int], ...] = (
    # who, queue, name, GPUs, workers, minutes ago
    ("ben", "team-b", "vit-base", 1, 4, 350),
    ("maximiliane.oberhauser", "team-b", "notebook-7", 1, 1, 375),
    ("kim", "team-b", "segment", 1, 4, 130),
    ("mira", "team-a", "defects", 2.0, 1, 90),
    ("mira", "team-a", "probe", 0.25, 1, 60),
    ("lena", "team-a", "draft", 0.5, 1, 40),
    ("lena", "team-a", "tune", 0.25, 1, 20),
    ("ivo", "team-a", "sweep-a", 1, 2, 200),
    ("ivo", "annotation", "labels", 0.5, 3, 45),
    ("sweeps-nightly", "batch", "night-1", 1, 6, 780),
    ("sweeps-nightly", "batch", "night-2", 1, 2, 600),
)
WAITS: tuple[tuple[str, str, str, float, int, int], ...] = (
    ("ivo", "team-b", "align", 0.75, 1, 18),
    ("noor", "team-b", "ablation", 1, 1, 52),
    ("kim", "team-b", "refine", 1, 1, 9),
    ("ben", "team-b", "vit-large", 1, 4, 31),
    ("sweeps-nightly", "batch", "night-3", 1, 1, 44),
    ("sweeps-nightly", "batch", "night-4", 1, 1, 40),
)
IDLE = ("notebook-7", "draft", "probe")


class TeamService:
    """The service of that afternoon. `call` runs a coroutine of its own loop and returns what that returns."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "queues.yaml").write_text(QUEUES)
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        self.service = Service(
            Parts(
                settings=Settings(state_dir=self._folder, idle_exit_s=0),
                read_machine=lambda _held: machine("24x80GiB"),
                planner=plan,
                version="0.0.0",
            )
        )
        await self.service.start()
        await self._afternoon()
        app = create_app(self.service, [TokenAuthenticator(TOKENS)])
        listening = listen(0)
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            await serve(app, listening, stop=self.stopping, on_listening=self._ready.set)
        finally:
            await self.service.stop()

    def __enter__(self) -> TeamService:
        self._thread.start()
        assert self._ready.wait(timeout=60), "the service did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)
        self._thread.join(timeout=60)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=60)

    # -- the story ---------------------------------------------------------------------------------
    async def _afternoon(self) -> None:
        for hold in HOLDS:
            await self._asked(*hold)
        await self._until(lambda: all(r.granted_at for r in self.service.records))
        await self._started()
        for who, queue, name, gpu, workers, ago in WAITS:
            await self._asked(who, queue, name, gpu, workers, ago)
        self._idle()
        self._day()
        await self._until(lambda: len(self.service.overview.waiting) == len(WAITS))

    async def _asked(
        self, who: str, queue: str, name: str, gpu: float, workers: int, ago: int
    ) -> None:
        kind = "gang" if workers > 1 else "lease"
        more: dict[str, Any] = {"process": own_process(), "lease_s": 8 * 3600}
        if workers > 1:
            more = {
                "work": Work(command=("true",)),
                "signature": "signed",
                "declared_run_s": 14 * 3600,
                "priority": 100,
            }
        ask = Submit(
            kind=kind, queue=queue, name=name, gpu=gpu, workers=workers, preemptible=True, **more
        )
        await self.service.submit(PEOPLE[who], ask, idempotency_key=None)
        self._aged(f"{who}/{name}", ago)
        await asyncio.sleep(0)

    def _aged(self, key: str, minutes: int) -> None:
        record = self.service.records.find(key)
        assert record is not None
        at = self.service.clock() - minutes * MINUTE
        self.service.records.put(replace(record, created_at=at))

    async def _started(self) -> None:
        process = own_process()
        for name, caller in PEOPLE.items():
            answer = await self.service.claim(caller, ClaimRequest(runner=f"r-{name}", host="here"))
            for order in answer.starts:
                report = Report(
                    incarnation=order.incarnation,
                    kind="started",
                    at=self.service.clock(),
                    pid=process.pid,
                    start_ticks=process.start_ticks,
                )
                await self.service.report(caller, report)
        for who, _, name, _, _, ago in HOLDS:
            record = self.service.records.find(f"{who}/{name}")
            assert record is not None
            at = self.service.clock() - ago * MINUTE
            self.service.records.put(replace(record, created_at=at - 6 * MINUTE, granted_at=at))

    def _idle(self) -> None:
        """Let the devices of three leases have done nothing for half an hour, all others be busy."""
        idle = {
            share.device
            for record in self.service.records
            if record.name in IDLE
            for pod in record.pods
            for share in pod.devices
        }
        now = self.service.clock()
        for busy, at in ((90, now - 30 * MINUTE), (0, now)):
            states = tuple(
                GpuState(
                    uuid=device.id,
                    index=device.index,
                    name=device.model,
                    memory_mib=device.memory_mib,
                    used_mib=2048,
                    utilisation_percent=busy if device.id in idle else 60 + device.index % 37,
                    is_mig=False,
                    processes=(),
                )
                for device in self.service.devices.values()
            )
            self.service.usage.look(Devices(driver="", devices=states), at)

    def _day(self) -> None:
        """Fill the last 24 h: quiet at night, more asked than there is in the afternoon."""
        now = self.service.clock()
        for quarter in range(96, 0, -1):
            at = now - quarter * 15 * MINUTE
            day = 0.5 + 0.5 * math.cos(2 * math.pi * (quarter / 96))
            held = min(24_000, int(12_000 + 14_000 * day))
            asked = held + int(6000 * max(0.0, day - 0.55) * 2)
            uses = {
                "team-b": QueueUse(held // 2, asked // 2, max(0, (asked - held) // 900), 500),
                "batch": QueueUse(held - held // 2, asked - asked // 2, 0, 0),
            }
            self.service.use.note(Sample(at, 24_000, uses))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(3000):
            if is_so():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the afternoon did not come to be")
