"""A whole service in a temporary folder that moves only when a test says so: no thread, no timer, no real clock."""

from __future__ import annotations

from pathlib import Path

from scheduler_service.model.plan import Pipeline
from scheduler_service.planning.cycle import plan
from scheduler_service.ports import ADMIN, Caller, RefusedRequest
from scheduler_service.service import Parts, Service
from scheduler_service.settings.table import Settings
from scheduler_service.wire.pod_group import PodGroupView, Submit, Work
from scheduler_service.wire.problem import Problem
from scheduler_service.wire.runner import ClaimRequest, Report, StartOrder
from tests.fakes.machine import ManualClock, machine, own_process

ANA = Caller("ana")
BEN = Caller("ben", groups=frozenset({"vision"}))
ROOT = Caller("root", scopes=frozenset({ADMIN}))
WORK = Work(command=("true",))


class Stage:
    """The service, its clock, and shorthands for what runners and people do."""

    def __init__(self, folder: Path, *, devices: str = "2x24GiB", **settings: object) -> None:
        self.folder = folder
        self.devices = devices
        self.clock = ManualClock()
        self.settings = Settings(state_dir=folder, **settings)  # type: ignore[arg-type]
        self.service = self._open()

    def _open(self) -> Service:
        return Service(
            Parts(
                settings=self.settings,
                read_machine=lambda _held: machine(self.devices),
                planner=plan,
                clock=self.clock,
                version="0.0.0",
            )
        )

    async def begin(self) -> Stage:
        """Load the state and make the first plan."""
        await self.service.load()
        await self.turn()
        return self

    async def restart(self) -> Stage:
        """Drop the service as a kill -9 would, and open it again over the same folder."""
        self.service = self._open()
        return await self.begin()

    async def turn(self) -> None:
        """Plan until nothing new is decided."""
        for _ in range(20):
            cycle = await self.service.loop.turn()
            operations = [op for statement in cycle.accepted for op in statement.operations]
            if all(isinstance(operation, Pipeline) for operation in operations):
                return  # promises are made again in every turn
        raise AssertionError("the loop never comes to rest")

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and everything that the clock asks for happen."""
        self.clock.pass_s(seconds)
        await self.service.tick()
        if self.service._looking is not None:
            await self.service._looking
        await self.turn()

    async def ask(
        self, caller: Caller = ANA, *, key: str | None = None, **fields: object
    ) -> PodGroupView:
        """Submit, plan, and return how the group stands."""
        if "process" not in fields and "work" not in fields:
            is_lease = fields.get("kind", "batch") == "lease"
            fields |= {"process": own_process()} if is_lease else {"work": WORK}
        if "work" in fields:
            fields.setdefault("signature", "signed")
        ask = Submit(**fields)  # type: ignore[arg-type]
        view, _ = await self.service.submit(caller, ask, idempotency_key=key)
        await self.turn()
        return await self.view(caller, view.name)

    async def refusal(self, caller: Caller = ANA, **fields: object) -> Problem:
        """Return the problem that a request is refused with."""
        try:
            view = await self.ask(caller, **fields)
        except RefusedRequest as error:
            return error.problem
        raise AssertionError(f"it was accepted: {view.sentence}")

    async def view(self, caller: Caller, name: str) -> PodGroupView:
        """Return a group as its owner sees it."""
        return await self.service.group(caller, caller.user, name)

    async def claim(self, caller: Caller = ANA, runner: str = "runner-1") -> tuple[StartOrder, ...]:
        """Claim as the caller's runner."""
        answer = await self.service.claim(caller, ClaimRequest(runner=runner, host="here"))
        return answer.starts

    async def start(self, caller: Caller = ANA) -> tuple[StartOrder, ...]:
        """Claim everything and report it started."""
        orders = await self.claim(caller)
        process = own_process()
        for order in orders:
            report = Report(
                incarnation=order.incarnation,
                kind="started",
                at=self.clock(),
                pid=process.pid,
                start_ticks=process.start_ticks,
            )
            await self.service.report(caller, report)
        await self.turn()
        return orders

    async def end(self, order: StartOrder, caller: Caller = ANA, **fields: object) -> None:
        """Report that a pod ended; well, unless told otherwise."""
        told = {"exit_code": 0, **fields}
        report = Report(incarnation=order.incarnation, kind="ended", at=self.clock(), **told)  # type: ignore[arg-type]
        await self.service.report(caller, report)
        await self.turn()
