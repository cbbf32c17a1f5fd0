"""Work under a virtual clock: the planner decides, everybody obeys at once.

Rules: 1. The ledger lives through the whole run and is fed by events, as in life. 2. A plan is made
only at moments at which something happens. 3. A group that loses a pod it needs starts from the
beginning when its turn comes again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler_service.ledger import events
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.node import Node
from scheduler_service.model.plan import Bind, Evict, Plan
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import PodGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning.cycle import plan
from scheduler_service.simulate.asks import Asks, least_asked, whole_gpus
from scheduler_service.simulate.line import Line, may_wait_outside
from scheduler_service.simulate.result import Point, Result

MOST_PLANS_AT_ONCE = 8
"""Plans at one moment: what one frees the next one fills; then time goes on."""


DISTURB: Final = frozenset({"consolidate", "reclaim", "preempt"})


@dataclass(frozen=True, slots=True)
class Coming:
    """A group that comes at a moment and, once it has what it needs, runs for a time."""

    at_ms: int
    group: PodGroup
    pods: tuple[Pod, ...]
    run_ms: int | None = None
    """None = to the end of the run."""
    fails_after_ms: int | None = None
    """It fails when it has run for so long."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node that is gone at a moment, and back after a time (None = never)."""

    node: str
    at_ms: int
    for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Comes:
    """A group comes."""

    coming: Coming


@dataclass(frozen=True, slots=True)
class Ends:
    """A group ends, if it still is in the run in which that was foreseen."""

    group: str
    run: int
    has_failed: bool


@dataclass(frozen=True, slots=True)
class NodeGoes:
    """A node is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeReturns:
    """A node is there again."""

    node: Node


@dataclass(frozen=True, slots=True)
class Passes:
    """A time is over that a rule waits for."""


@dataclass(frozen=True, slots=True)
class Wakes:
    """A moment that a plan named; without anything else to come it does not count."""


Happening = Comes | Ends | NodeGoes | NodeReturns | Passes | Wakes


@dataclass(slots=True)
class _Job:
    coming: Coming
    group: PodGroup
    run: int = 0
    """Grows with each start and each loss: the end of an earlier run is not taken for its own."""
    bound: set[str] = field(default_factory=set)
    runs: bool = False
    has_started: bool = False


class Clock:
    """The run of one trace over a cluster."""

    def __init__(
        self,
        cluster: Snapshot,
        policy: Policy,
        comings: Iterable[Coming],
        failures: Iterable[NodeFailure] = (),
    ) -> None:
        self.policy = policy
        self.ledger = Ledger.from_snapshot(cluster)
        self.result = Result(sum(node.gpus for node in cluster.nodes) * 1000)
        self._knows_waiting = policy.reserve_after_ms > 0 or policy.age_ms > 0
        self._may_disturb = bool(DISTURB.intersection(policy.actions))
        self._nodes: Mapping[str, Node] = {node.name: node for node in cluster.nodes}
        self._jobs: dict[str, _Job] = {}
        self._waiting: set[str] = set()
        self._asks = Asks()
        self._line = Line(self.ledger) if may_wait_outside(cluster, policy) else None
        self._stale: frozenset[str] = frozenset()
        self._runtimes_ms = sorted(
            {
                runtime
                for queue in cluster.queues
                for runtime in (queue.preempt_min_runtime_ms, queue.reclaim_min_runtime_ms)
                if runtime
            }
        )
        self._wakes: set[int] = set()
        self._ahead = 0
        """What is still to come besides moments that plans named."""
        self._order = count()
        self._due: list[tuple[int, int, Happening]] = []
        for coming in comings:
            self._at(coming.at_ms, Comes(coming))
        for failure in failures:
            self._line = None
            self._at(failure.at_ms, NodeGoes(failure.node))
            if failure.for_ms is not None:
                self._at(failure.at_ms + failure.for_ms, NodeReturns(self._nodes[failure.node]))

    def _at(self, moment: int, happening: Happening) -> None:
        if not isinstance(happening, Wakes):
            self._ahead += 1
        heappush(self._due, (moment, next(self._order), happening))

    def run(self, until_ms: int | None = None) -> Result:
        """Let everything happen, up to a moment if one is given, and return what it came to."""
        while self._due and (until_ms is None or self._due[0][0] <= until_ms):
            if self._is_bygone(self._due[0][2]):
                self._pop()
                continue
            now = self._due[0][0]
            self._note_usage(now)
            happened: list[Happening] = []
            while self._due and self._due[0][0] == now:
                happened.append(self._pop())
                self._happens(happened[-1])
            if not self._starts_nothing(happened):
                self._plan(now)
            self._note(now)
        if until_ms is not None and self._due:
            self._note(until_ms)
        return self.result

    def _pop(self) -> Happening:
        happening = heappop(self._due)[2]
        if not isinstance(happening, Wakes):
            self._ahead -= 1
        return happening

    def _plan(self, now: int) -> None:
        if self._line is not None:
            self._line.let_in()
        for _ in range(MOST_PLANS_AT_ONCE):
            made = plan(self.ledger, self.policy, now)
            self.result.cycles += 1
            if not self._obey(made, now):
                self._wake(made.wake_ms)
                break
        if self._line is not None:
            self._line.let_out()

    def _wake(self, moment: int | None) -> None:
        """Plan again at a moment at which time alone changes something, while anything else comes."""
        if self._knows_waiting and self._ahead and moment is not None and moment not in self._wakes:
            self._wakes.add(moment)
            self._at(moment, Wakes())

    def _starts_nothing(self, happened: list[Happening]) -> bool:
        """Say whether a plan is known to start nothing.

        That is so if nobody may be moved, groups only came or ended, and everybody who waits
        needs more GPUs than are free.
        """
        if self._may_disturb or not all(isinstance(one, Comes | Ends) for one in happened):
            return False
        return self._asks.exceed(sum(gpus for gpus in self.ledger.nodes.idle_gpu if gpus > 0))

    def _note(self, now: int) -> None:
        queues = self.ledger.queues
        held = {model.name: queues.allocated[row][2] for row, model in enumerate(queues.models)}
        whole = sum(held[model.name] for model in queues.models if model.parent is None)
        self.result.note(Point(now, whole, len(self._waiting)), held)

    def _note_usage(self, now: int) -> None:
        policy = self.policy
        if policy.weighs_usage:
            rule = (policy.usage_half_life_ms, policy.usage_window_ms)
            self.ledger.apply(events.UsageTick(now, *rule, by_owner=policy.user_fairness))

    # -- what happens by itself --------------------------------------------------------------

    def _happens(self, happening: Happening) -> None:
        match happening:
            case Comes(coming=coming):
                self._come(coming)
            case Ends(group=key, has_failed=has_failed):
                if not self._is_bygone(happening):
                    self._end(key, has_failed=has_failed)
            case NodeGoes(name=name):
                self._lose_node(name)
            case NodeReturns(node=node):
                self.ledger.apply(events.NodeAdded(node))
            case Passes() | Wakes():
                pass

    def _is_bygone(self, happening: Happening) -> bool:
        """Say whether it is the end of a run that was broken off, or a moment after the end."""
        if isinstance(happening, Wakes):
            return not self._ahead
        if not isinstance(happening, Ends):
            return False
        job = self._jobs.get(happening.group)
        return job is None or job.run != happening.run

    def _come(self, coming: Coming) -> None:
        group = coming.group
        if group.preemption_delay_ms is not None:
            group = replace(group, made_ms=coming.at_ms)
        if self._knows_waiting:
            group = replace(group, waits_since_ms=coming.at_ms)
        if (delay_ms := group.preemption_delay_ms) is not None:
            self._at(coming.at_ms + delay_ms, Passes())
        key, job = group.key, _Job(coming, group)
        self._jobs[key] = job
        self.result.queue(group.queue).arrived += 1
        self._waiting.add(key)
        self._asks.add(key, least_asked(group, coming.pods))
        if self._line is not None and self._line.takes(group, coming.pods):
            return
        self.ledger.apply(events.PodGroupAdded(group))
        for pod in coming.pods:
            self.ledger.apply(events.PodAdded(pod))
            if pod.state is PodState.RUNNING:
                job.bound.add(pod.key)
        self._check_start(job, coming.at_ms)

    def _end(self, key: str, *, has_failed: bool) -> None:
        job = self._jobs[key]
        queue = self.result.queue(job.group.queue)
        if has_failed:
            queue.failed += 1
        else:
            queue.finished += 1
        del self._jobs[key]
        self._waiting.discard(key)
        self._asks.drop(key)
        for pod in job.coming.pods:
            self.ledger.apply(events.PodRemoved(pod.key))
        self.ledger.apply(events.PodGroupRemoved(key))

    def _lose_node(self, name: str) -> None:
        pods, row = self.ledger.pods, self.ledger.nodes.row_of.get(name)
        lost = [
            key for key, pod in pods.row_of.items() if row is not None and pods.node[pod] == row
        ]
        for key in lost:
            group = pods.models[pods.row_of[key]].group
            self.result.queue(self._jobs[group].coming.group.queue).lost += 1
            self._stop(self._jobs[group], key)
        self.ledger.apply(events.NodeRemoved(name))

    # -- what the plan wants -----------------------------------------------------------------

    def _obey(self, made: Plan, now: int) -> bool:
        """Carry a plan out; say whether somebody left, so that the next plan finds room."""
        self._note_stale(made, now)
        has_left = False
        for statement in made.statements:
            self.ledger.apply(events.Assumed(statement, now, self.policy.hold_ms))
            for operation in statement.operations:
                self.result.operations[type(operation).__name__.lower()] += 1
                job = self._job_of(operation.pod)
                if isinstance(operation, Bind):
                    self._start(job, operation, now)
                elif isinstance(operation, Evict):
                    has_left = True
                    self._evict(job, operation, now)
        return has_left

    def _note_stale(self, made: Plan, now: int) -> None:
        """Remember since when groups are below their minimum, and plan when their grace is over."""
        for key in sorted(self._stale ^ made.stale.keys()):
            if (job := self._jobs.get(key)) is None:
                continue
            self._change(job, stale_since_ms=made.stale.get(key))
            grace = job.group.stale_grace_ms
            grace = self.policy.stale_gang_grace_ms if grace is msgspec.UNSET else grace
            if key in made.stale and isinstance(grace, int):
                self._at(now + grace, Passes())
        self._stale = frozenset(made.stale)

    def _change(self, job: _Job, **fields: int | None) -> None:
        job.group = replace(job.group, **fields)
        self.ledger.apply(events.PodGroupChanged(job.group))

    def _evict(self, job: _Job, evict: Evict, now: int) -> None:
        self.result.queue(job.group.queue).evictions += 1
        self._stop(job, evict.pod)
        if (delay_ms := job.group.preemption_delay_ms) is not None:
            self._change(job, last_evicted_ms=now)
            self._at(now + delay_ms, Passes())

    def _job_of(self, pod: str) -> _Job:
        pods = self.ledger.pods
        return self._jobs[pods.models[pods.row_of[pod]].group]

    def _start(self, job: _Job, bind: Bind, now: int) -> None:
        changed = events.PodStateChanged(bind.pod, PodState.RUNNING, bind.node, bind.devices)
        self.ledger.apply(changed)
        job.bound.add(bind.pod)
        self._check_start(job, now)

    def _check_start(self, job: _Job, now: int) -> None:
        """Let a group run from now on if it has what it needs since now."""
        group = job.group
        if len(job.bound) == len(job.coming.pods):
            self._asks.drop(group.key)
        if job.runs or len(job.bound) < max(1, group.min_members):
            return
        job.runs = True
        self._waiting.discard(group.key)
        if not job.has_started:
            job.has_started = True
            queue = self.result.queue(group.queue)
            queue.note_start(now - job.coming.at_ms, gpus=whole_gpus(job.coming.pods))
        job.run += 1
        if self._runtimes_ms or group.run_ms is not None:
            self._change(job, started_ms=now)
            for runtime in self._runtimes_ms:
                self._at(now + runtime, Passes())
        run_ms, fails_ms = job.coming.run_ms, job.coming.fails_after_ms
        if fails_ms is not None and (run_ms is None or fails_ms < run_ms):
            self._at(now + fails_ms, Ends(group.key, job.run, has_failed=True))
        elif run_ms is not None:
            self._at(now + run_ms, Ends(group.key, job.run, has_failed=False))

    def _stop(self, job: _Job, pod: str) -> None:
        """Take a pod off its place; below its minimum the whole group begins again later."""
        self.ledger.apply(events.PodStateChanged(pod, PodState.PENDING))
        job.bound.discard(pod)
        self._asks.add(job.group.key, 0)
        if job.runs and len(job.bound) < max(1, job.group.min_members):
            job.runs = False
            job.run += 1
            self._waiting.add(job.group.key)
