"""What every backend promises the loop (`ports.Backend`). The same suite runs on each world of `worlds`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.plan import Bind, Evict, Pipeline, Statement
from scheduler_service.model.pod import PodState
from scheduler_service.model.reasons import PreemptedBy
from scheduler_service.ports import Accepted, Refused
from tests.contracts.worlds import LocalWorld
from tests.fakes.machine import MORNING

WORLDS = {"local": LocalWorld}


@pytest.fixture(params=WORLDS.values(), ids=WORLDS.keys())
def world(request: pytest.FixtureRequest, tmp_path: Path) -> LocalWorld:
    return request.param(tmp_path)


def start(world: LocalWorld, *binds: Bind) -> Statement:
    return Statement("allocate", "ana/x", binds)


def bind(world: LocalWorld, name: str, device: int, rank: int = 0) -> Bind:
    return Bind(world.pod(name, rank), world.node, (world.share(device),))


def states(world: LocalWorld) -> dict[str, PodState]:
    """Return what the ledger is told of each pod, as a new process would hear it."""
    fresh = world.again()
    asyncio.run(fresh.backend.start())
    ledger = Ledger()
    ledger.apply_all(fresh.backend.observed())
    return {pod.key: pod.state for pod in ledger.snapshot(0).pods}


def test_after_start_the_nodes_are_observed_and_then_forgotten(world: LocalWorld) -> None:
    async def story() -> None:
        await world.backend.start()
        assert await world.backend.wait_observed(60)
        first = world.backend.observed()
        assert [e.node.name for e in first if isinstance(e, events.NodeAdded)] == [world.node]
        assert list(world.backend.observed()) == []
        assert not await world.backend.wait_observed(0)

    asyncio.run(story())


def test_a_new_group_is_observed_with_its_pods(world: LocalWorld) -> None:
    async def story() -> None:
        await world.backend.start()
        world.backend.observed()
        world.ask("train", workers=2)
        seen = world.backend.observed()
        assert [type(event) for event in seen] == [
            events.PodGroupAdded,
            events.PodAdded,
            events.PodAdded,
        ]

    asyncio.run(story())


def test_an_accepted_start_is_durable_before_it_is_accepted(world: LocalWorld) -> None:
    world.ask("train")

    async def story() -> None:
        await world.backend.start()
        world.backend.observed()
        answer = await world.backend.apply(start(world, bind(world, "train", 0)), MORNING)
        assert answer == Accepted()
        told = [e for e in world.backend.observed() if isinstance(e, events.PodStateChanged)]
        assert told == [
            events.PodStateChanged(
                world.pod("train"), PodState.BINDING, world.node, (world.share(0),)
            )
        ]

    asyncio.run(story())
    assert states(world) == {world.pod("train"): PodState.BINDING}


def test_the_whole_life_reaches_the_ledger(world: LocalWorld) -> None:
    world.ask("train")

    async def story() -> Ledger:
        await world.backend.start()
        await world.backend.apply(start(world, bind(world, "train", 0)), MORNING)
        world.starts("train")
        ledger = Ledger()
        ledger.apply_all(world.backend.observed())
        (pod,) = ledger.snapshot(0).pods
        assert (pod.state, pod.node, pod.devices) == (
            PodState.RUNNING,
            world.node,
            (world.share(0),),
        )
        world.ends("train")
        ledger.apply_all(world.backend.observed())
        return ledger

    assert asyncio.run(story()).snapshot(0).pods == ()


def test_a_statement_is_carried_out_whole_or_not_at_all(world: LocalWorld) -> None:
    """Two pods in one statement, the second on a device that is taken already."""
    world.ask("first")
    world.ask("gang", workers=2)

    async def story() -> None:
        await world.backend.start()
        await world.backend.apply(start(world, bind(world, "first", 1)), MORNING)
        world.backend.observed()
        both = start(world, bind(world, "gang", 0), bind(world, "gang", 1, rank=1))
        answer = await world.backend.apply(both, MORNING)
        assert isinstance(answer, Refused)
        assert str(answer.reason)
        assert list(world.backend.observed()) == []

    asyncio.run(story())
    assert states(world) == {
        world.pod("first"): PodState.BINDING,
        world.pod("gang"): PodState.PENDING,
        world.pod("gang", 1): PodState.PENDING,
    }


@pytest.mark.parametrize("fault", ["twice", "unknown pod", "unknown device", "over"])
def test_a_plan_from_an_old_view_is_refused(world: LocalWorld, fault: str) -> None:
    world.ask("train")

    async def story() -> None:
        await world.backend.start()
        good = bind(world, "train", 0)
        statement = start(world, good)
        if fault == "unknown pod":
            statement = start(world, Bind("ana/gone-0", world.node, good.devices))
        elif fault == "unknown device":
            other = type(good.devices[0])("GPU-none", 1000)
            statement = start(world, Bind(good.pod, world.node, (other,)))
        else:
            assert await world.backend.apply(statement, MORNING) == Accepted()
        if fault == "over":
            world.ends("train")
        before = world.backend.observed()
        assert isinstance(await world.backend.apply(statement, MORNING), Refused)
        assert before is not None
        assert list(world.backend.observed()) == []

    asyncio.run(story())


def test_an_eviction_leaves_the_place_taken_until_the_pod_has_left(world: LocalWorld) -> None:
    world.ask("train")
    world.ask("urgent")

    async def story() -> None:
        await world.backend.start()
        await world.backend.apply(start(world, bind(world, "train", 0)), MORNING)
        world.starts("train")
        world.backend.observed()
        evict = Evict(world.pod("train"), world.node, PreemptedBy("ana/urgent", 100, 50))
        promise = Pipeline(world.pod("urgent"), world.node, (world.share(0),))
        statement = Statement("preempt", "ana/urgent", (evict, promise))
        assert await world.backend.apply(statement, MORNING) == Accepted()
        (event,) = world.backend.observed()
        assert (event.key, event.state) == (world.pod("train"), PodState.RELEASING)
        early = await world.backend.apply(start(world, bind(world, "urgent", 0)), MORNING)
        assert isinstance(early, Refused)
        world.ends("train")
        world.backend.observed()
        later = await world.backend.apply(start(world, bind(world, "urgent", 0)), MORNING)
        assert later == Accepted()

    asyncio.run(story())


def test_an_eviction_of_what_is_gone_is_refused(world: LocalWorld) -> None:
    async def story() -> None:
        await world.backend.start()
        evict = Evict("ana/gone-0", world.node, PreemptedBy("ana/urgent", 100, 50))
        statement = Statement("preempt", "ana/urgent", (evict,))
        assert isinstance(await world.backend.apply(statement, MORNING), Refused)

    asyncio.run(story())


def test_a_new_process_hears_what_the_old_one_knew(world: LocalWorld) -> None:
    for name in ("runs", "starts", "waits"):
        world.ask(name)

    async def live() -> Ledger:
        ledger = Ledger()
        await world.backend.start()
        await world.backend.apply(start(world, bind(world, "runs", 0)), MORNING)
        await world.backend.apply(start(world, bind(world, "starts", 1)), MORNING)
        world.starts("runs")
        ledger.apply_all(world.backend.observed())
        await world.backend.stop()
        return ledger

    async def fresh() -> Ledger:
        other = world.again()
        await other.backend.start()
        ledger = Ledger()
        ledger.apply_all(other.backend.observed())
        return ledger

    assert asyncio.run(live()).snapshot(0) == asyncio.run(fresh()).snapshot(0)
