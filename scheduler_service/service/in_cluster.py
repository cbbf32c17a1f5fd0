"""The scheduler of a Kubernetes cluster: backend, loop and what goes beside them, as one thing to start and stop.

Rule: its state is what the API holds; a new process, or the next leader, finds all of it there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.cluster import KubernetesCluster, Options
from scheduler_service.backends.kubernetes.controllers.memberships import Memberships
from scheduler_service.backends.kubernetes.controllers.metrics import Turn
from scheduler_service.backends.kubernetes.controllers.suite import Controllers, Followed
from scheduler_service.backends.kubernetes.leader import identity
from scheduler_service.backends.kubernetes.names import NAMESPACE
from scheduler_service.backends.kubernetes.shadow import Shadow
from scheduler_service.loop import Cycle, Loop, Planner
from scheduler_service.model.policy import Policy
from scheduler_service.ports import Backend
from scheduler_service.service.core import stopwatch_us, wall_clock_ms

log = logging.getLogger("kai.scheduler")
CYCLES_KEPT = 100
OnCycle = Callable[[Cycle], None]
Beside = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Whether it decides, and whether it does what it decides."""

    decides: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What is our own in the cluster: its namespace, and the image of pods that stand for shares ("" = none)."""

    namespace: str = NAMESPACE
    scaling_image: str = ""


class InCluster:
    """Follows the cluster, plans and carries out, for as long as it runs.

    `on_cycle` hears of every cycle; `beside` are tasks that run as long as the scheduler does (controllers).
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        options: Options,
        planner: Planner,
        manner: Manner | None = None,
        house: House | None = None,
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.manner = manner or Manner()
        self.cluster = KubernetesCluster(client, clock=clock, options=options)
        self.shadow = Shadow(self.cluster) if self.manner.dry_run else None
        self.on_cycle: list[OnCycle] = []
        self.beside: list[Beside] = []
        self.cycles: deque[Cycle] = deque(maxlen=CYCLES_KEPT)
        self.is_following = False
        backend: Backend = self.shadow or self.cluster
        self._backend = backend
        self._notes: set[asyncio.Task[None]] = set()
        self.loop = Loop(
            backend,
            planner=planner,
            policy=self._in_force(options.policy),
            clock=clock,
            stopwatch_us=stopwatch_us,
            on_cycle=self._cycle_done,
        )
        self.loop.most_pods_kept = 0
        self.cluster.on_policy = self._policy_changed
        self.controllers = self._controllers(house or House()) if self._acts else None

    @property
    def _acts(self) -> bool:
        """Whether anything is written at all."""
        return self.manner.decides and not self.manner.dry_run

    def _controllers(self, house: House) -> Controllers:
        """Return what writes groups, statuses and news, as long as this process leads."""
        cluster = self.cluster
        followed = Followed(
            client=cluster.client,
            writes=cluster.writes,
            stores=cluster.stores,
            members=cluster.world.pods_of,
            scope=lambda: cluster.world.scope,
            listen=cluster.listen,
            observe_group=cluster.reflectors["groups"].observe,
            memberships=Memberships(
                cluster.reflectors["pods"],
                lambda pod: cluster.world.overlay.place(pod) is not None,
            ),
            troubles=cluster.world.troubles,
        )
        controllers = Controllers(
            followed,
            namespace=house.namespace,
            reporter=identity(),
            scaling_image=house.scaling_image,
        )
        self.beside.append(controllers.run)
        self.on_cycle.append(lambda cycle: controllers.decided(_turn(cycle)))
        return controllers

    def _in_force(self, policy: Policy) -> Policy:
        """Return the policy, without its actions where somebody else decides."""
        if self.manner.decides:
            return policy
        return Policy(actions=(), placement=policy.placement)

    def _policy_changed(self, policy: Policy) -> None:
        self.loop.policy = self._in_force(policy)
        self.loop.plan_again()

    async def follow(self) -> None:
        """Learn what is there; a process that waits to lead does so already."""
        await self._backend.start()
        self.is_following = True
        gc.freeze()

    async def run(self) -> None:
        """Plan and carry out, with all that goes beside, until cancelled; a part that fails ends it all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.loop.run())
            for part in self.beside:
                group.create_task(_run(part))

    async def stop(self) -> None:
        """Finish what was begun."""
        self.is_following = False
        await self._backend.stop()
        await asyncio.gather(*self._notes, return_exceptions=True)

    def _cycle_done(self, cycle: Cycle) -> None:
        self.cycles.append(cycle)
        for statement, reason in cycle.refused:
            log.info("%s for %s was declined: %s", statement.action, statement.group, reason)
        for listener in self.on_cycle:
            listener(cycle)
        if self._acts:
            note = asyncio.ensure_future(self.cluster.moments.stale(cycle.plan.stale))
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)


def _turn(cycle: Cycle) -> Turn:
    return Turn(cycle.plan, cycle.accepted, len(cycle.refused), cycle.duration_us)


async def _run(part: Beside) -> None:
    await part()
