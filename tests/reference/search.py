"""What-ifs and the search among them: kai-core 5.3 to 5.5 with the points of FORMAT.md.

A what-if is a copy of all places. What the texts leave open and could decide raises `Ambiguous`.
What is bound or moved is not asked again in the same cycle (no pod is both bound and evicted), what was
served not by the same action, and in consolidation neither is what was looked at and stayed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory
from scheduler_service.model.pod import HOLDS_RESOURCES, Pod, PodState
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from tests.reference.allocate import Place, Reference
from tests.reference.gang import Tree
from tests.reference.nodes import LEAVES, PROMISED, STAYS, Holder, NodeNow
from tests.reference.topology import NodeSet
from tests.reference.victims import Stack, Step

Validator = Callable[[Sequence[Step]], bool]


@dataclass(frozen=True)
class Job:
    """On whose behalf room is made, and which of its pods are tried."""

    key: str
    part: tuple[Pod, ...]


class Search(Reference):
    """What has to go for a group, found by trying."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        super().__init__(snapshot, policy)
        self.was: dict[str, Place] = {}
        """Where the pods are that were told to go in this run."""
        self.job: Job | None = None
        self.evicted: set[str] = set()
        """Pods told to go in the what-if that is running."""
        self.touched: set[str] = set()
        """Groups of which this run has bound or moved a pod: left alone from now on."""
        self.promised: set[str] = set()
        """Groups that this action has served: left alone by it."""
        self.moves_only = False
        """Whether the action is consolidation: it leaves alone whom it looked at, too (ours; the texts ask again)."""

    # -- books of a what-if -----------------------------------------------------------------------

    def node_now(self, name: str) -> NodeNow:
        """Return a node with who is on it; who is promised another place leaves it.

        A promise that is dropped frees what was promised: it never held anything.
        """
        found = super().node_now(name)
        for pod in self.snapshot.pods:
            old = self.was.get(pod.key)
            if old is None or old.node != name:
                continue
            if old.state is PodState.PIPELINED:
                found.holders = [h for h in found.holders if h.pod is not pod or h.kind != LEAVES]
            elif self.places[pod.key].state is PodState.PIPELINED:
                found.holders.append(Holder(pod, LEAVES, old.devices))
        return found

    def tree(self, key: str) -> Tree:
        """Return the tree of a group: what the what-if told to go may come back."""
        pods = []
        for pod in self.members[key]:
            state = self.places[pod.key].state
            if pod.key in self.evicted and state is PodState.RELEASING:
                state = PodState.PENDING
            pods.append((pod, state))
        return Tree(self.groups[key], pods)

    def next_pods(self, key: str) -> list[Pod]:
        """Return what starts next of a group."""
        if self.job is not None and key == self.job.key:
            return list(self.job.part)
        return self.tree(key).next_pods() or self._returning(key)

    def _returning(self, key: str) -> list[Pod]:
        """Return what comes back of a group that is not ready: what it lacks of it, else one pod."""
        pods = [(pod, self.places[pod.key].state) for pod in self.members[key]]
        kept = [(pod, state) for pod, state in pods if state is not PodState.PENDING]
        back = [
            (pod, PodState.PENDING)
            for pod, state in pods
            if pod.key in self.evicted and state is PodState.RELEASING
        ]
        return Tree(self.groups[key], kept + back).returning()

    def _kept(self) -> tuple[dict[str, Place], ...]:
        return dict(self.places), dict(self.was)

    def _put_back(self, kept: tuple[dict[str, Place], ...]) -> None:
        self.places, self.was = kept

    def place(self, pod: Pod, key: str, among: NodeSet, *, firm: bool) -> bool:
        """Promise a pod a place; one that was told to go may keep the one it has."""
        if self.job is None:
            return super().place(pod, key, among, firm=firm)
        old = self.was.get(pod.key)
        for name, (devices, _) in self.offers(pod, key, among, firm=firm):
            if (
                old is not None
                and old.node == name
                and self._may_stay(pod, old, self.node_now(name), devices)
            ):
                self.places[pod.key] = old
                del self.was[pod.key]
            else:
                self.places[pod.key] = Place(PodState.PIPELINED, name, devices)
            return True
        return False

    def _may_stay(self, pod: Pod, old: Place, at: NodeNow, chosen: tuple[str, ...]) -> bool:
        """Whether this is where it was: shared GPUs that are still open are chosen by name.

        Instead of opening another GPU it keeps its own.
        """
        if not isinstance(pod.request.gpu, FractionOfGpu | GpuMemory):
            return True
        kept = at.tenants({STAYS, PROMISED})
        return {d for d in old.devices if d in kept} == {d for d in chosen if d in kept}

    def _wait_together(self, key: str, started: list[Pod]) -> None:
        if self.job is None:
            super()._wait_together(key, started)

    # -- one what-if -----------------------------------------------------------------------------

    def what_if(self, job: Job, steps: Sequence[Step], is_allowed: Validator) -> bool:
        """Let these go and everybody take a turn; undone unless the job is served by the rules."""
        before = dict(self.places), dict(self.was)
        self.job = job
        self.evicted = {pod.key for step in steps for pod in step.pods}
        for key in self.evicted:
            self.was[key] = self.places[key]
            old = self.places[key]
            self.places[key] = Place(PodState.RELEASING, old.node, old.devices)
        served = self._take_turns(job, {step.group for step in steps})
        served = served and is_allowed(sorted(steps, key=lambda step: step.number))
        self.job, self.evicted = None, set()
        if not served:
            self.places, self.was = before
        return served

    def _take_turns(self, job: Job, victims: set[str]) -> bool:
        turns = {k for k, g in self.groups.items() if g.queue in self.leaves and self._waits(k)}
        turns |= victims | {job.key}
        served = False
        while turns:
            key = self.next_group(turns)
            turns.discard(key)
            if key != job.key and key not in victims:
                continue
            before = dict(self.places), dict(self.was)
            is_placed = self.start(key)
            if not is_placed:
                self.places, self.was = before
            if key == job.key:
                if not is_placed:
                    return False
                served = True
        return served

    def _waits(self, key: str) -> bool:
        return self._has_pending(key)

    # -- the search ------------------------------------------------------------------------------

    def make_room(
        self, key: str, stack: Callable[[], Stack], is_allowed: Callable[[Job], Validator]
    ) -> bool:
        """Serve what starts next of a group by letting others go; undone if that fails."""
        chunk = tuple(self.next_pods(key))
        before = dict(self.places), dict(self.was)
        for search in (self._node_by_node, self._nodes_together):
            recorded: list[Step] = []
            for count in range(1, len(chunk) + 1):
                job = Job(key, chunk[:count])
                found = search(job, recorded, stack(), is_allowed(job))
                if found is None:
                    break
                recorded = self._lost_or_moved(found)
                if count == len(chunk):
                    self._note_who_changed(before[0])
                    self.promised.add(key)
                    if self.moves_only:
                        self.promised |= {step.group for step in found}
                    return True
                self.places, self.was = dict(before[0]), dict(before[1])
            self.places, self.was = dict(before[0]), dict(before[1])
        return False

    def _note_who_changed(self, before: Mapping[str, Place]) -> None:
        for pod in self.snapshot.pods:
            place = self.places[pod.key]
            if place == before[pod.key] or place.state is PodState.RELEASING:
                continue  # who lost something may lose more
            if pod.key in self.was:
                self.touched.add(pod.group)

    def _lost_or_moved(self, steps: Iterable[Step]) -> list[Step]:
        """Return what goes again when one pod more is asked for.

        Who stays promised counts as moved (5.5). A gang of which a pod lost its place goes as a
        whole: 5.6 lets none be broken.
        """
        away = (PodState.RELEASING, PodState.PIPELINED)
        return [s for s in steps if any(self.places[pod.key].state in away for pod in s.pods)]

    def _popped(self, recorded: list[Step], stack: Stack) -> Iterator[list[Step]]:
        """Yield all that may have to go so far, one more each time."""
        known = {key for step in recorded for key in step.keys}
        potential: list[Step] = []
        while (step := stack.pop()) is not None:
            if not step.keys & known:
                potential.append(step)
                yield potential

    def _node_by_node(
        self, job: Job, recorded: list[Step], stack: Stack, is_allowed: Validator
    ) -> list[Step] | None:
        if recorded and self.what_if(job, recorded, is_allowed):
            return recorded
        for potential in self._popped(recorded, stack):
            nodes = self._nodes_of([potential[-1].group])
            for node in sorted(nodes):
                here = {step.group for step in potential if self._is_on(step, node)}
                steps = recorded + [step for step in potential if step.group in here]
                if here and self.what_if(job, steps, is_allowed):
                    return steps
        return None

    def _nodes_of(self, groups: Iterable[str]) -> set[str]:
        return {
            str(self.places[pod.key].node)
            for key in groups
            for pod in self.members[key]
            if self.places[pod.key].state in HOLDS_RESOURCES
        }

    def _is_on(self, step: Step, node: str) -> bool:
        return any(self.places[pod.key].node == node for pod in step.pods)

    def _nodes_together(
        self, job: Job, recorded: list[Step], stack: Stack, is_allowed: Validator
    ) -> list[Step] | None:
        """Empty several nodes at once: those with the least room first, as few as could do."""
        for potential in self._popped(recorded, stack):
            for names in self._prefixes(job, potential):
                here = {s.group for s in potential if any(self._is_on(s, n) for n in names)}
                steps = recorded + [step for step in potential if step.group in here]
                if here and self.what_if(job, steps, is_allowed):
                    return steps
        return None

    def _prefixes(self, job: Job, potential: list[Step]) -> Iterator[list[str]]:
        room: dict[str, int] = {}
        for step in potential:
            for pod in step.pods:
                name = str(self.places[pod.key].node)
                room.setdefault(name, self._gpus_left(name))
                room[name] += int(self.held(pod)[2])
        names = sorted(room, key=lambda n: room[n])
        asked = [int(self.asked(pod, self.smallest)[2]) for pod in job.part]
        names = [n for n in names if room[n] >= min(asked)]
        elsewhere = sum(self._gpus_left(n) for n in self.nodes if n not in names)
        size = next(
            (n for n in range(len(names) + 1)
             if sum(room[x] for x in names[:n]) + elsewhere >= sum(asked)), None,
        )  # fmt: skip
        step = 1
        while size is not None and size < len(names):
            yield names[:size]
            size, step = size + step, step * 2
        if size is not None:
            yield names

    def _gpus_left(self, name: str) -> int:
        return 1000 * self.node_now(name).later.gpus
