"""The allocate action, step by step: kai-core section 4 with the points of FORMAT.md."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.node import Node
from scheduler_service.model.pod import COUNTS_FOR_QUEUE, HOLDS_RESOURCES, Pod, PodState
from scheduler_service.model.pod_group import Preemptibility, SubGroup
from scheduler_service.model.policy import Policy
from scheduler_service.model.snapshot import Snapshot
from tests.reference.gang import Tree, in_order
from tests.reference.nodes import LEAVES, PROMISED, STAYS, Holder, NodeNow, Shared, charge
from tests.reference.shares import ZERO, Amount, Books, fair_shares, plus
from tests.reference.topology import NodeSet, node_sets


@dataclass(frozen=True)
class Place:
    """A pod's state, node and shared GPUs."""

    state: PodState
    node: str | None = None
    devices: tuple[str, ...] = ()


class Reference:
    """A snapshot and the places of its pods, which `allocate` changes."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.nodes: dict[str, Node] = {n.name: n for n in snapshot.nodes}
        self.queues = {q.name: q for q in snapshot.queues}
        self.groups = {g.key: g for g in snapshot.pod_groups}
        self.members: dict[str, list[Pod]] = {key: [] for key in self.groups}
        self.places: dict[str, Place] = {}
        for pod in snapshot.pods:
            self.members[pod.group].append(pod)
            devices = tuple(share.device for share in pod.devices)
            self.places[pod.key] = Place(pod.state, pod.node, devices)
        parents = {q.parent for q in snapshot.queues}
        self.leaves = {name for name in self.queues if name not in parents}
        sizes = [n.gpu_memory_mib for n in snapshot.nodes if n.gpus and n.gpu_memory_mib]
        self.smallest, self.largest = (min(sizes), max(sizes)) if sizes else (None, None)
        self.fair = self._fair_shares()

    # -- books ---------------------------------------------------------------------------------

    def _fair_shares(self) -> dict[str, Amount]:
        wants: dict[str, Amount] = dict.fromkeys(self.queues, ZERO)
        for pod in self.snapshot.pods:
            group = self.groups[pod.group]
            if group.queue not in self.leaves:
                continue
            amount = ZERO
            if pod.state in COUNTS_FOR_QUEUE:
                amount = self.held(pod)
            elif pod.state is PodState.PENDING:
                amount = self.asked(pod, self.smallest)
            at: str | None = group.queue
            while at is not None:
                wants[at] = plus(wants[at], amount)
                at = self.queues[at].parent
        return fair_shares(self.total(), self.snapshot.queues, wants)

    def total(self) -> Amount:
        """Return what the cluster has of each resource."""
        gpu = sum(n.gpus + Mig(tuple(n.mig.items())).compute_slices() for n in self.nodes.values())
        return (
            Fraction(sum(n.milli_cpu for n in self.nodes.values())),
            Fraction(sum(n.memory_bytes for n in self.nodes.values())),
            Fraction(1000 * gpu),
        )

    def asked(self, pod: Pod, device_mib: int | None) -> Amount:
        """Return what a pending pod asks; memory is measured by a device of this size."""
        gpu = Fraction(0)
        match pod.request.gpu:
            case WholeGpus(count=count):
                gpu = Fraction(1000 * count)
            case FractionOfGpu(milli=milli, devices=devices):
                gpu = Fraction(milli * devices)
            case GpuMemory(mib=mib, devices=devices) if device_mib:
                gpu = Fraction(1000 * mib * devices, device_mib)
            case Mig() as mig:
                gpu = Fraction(1000 * mig.compute_slices())
        return Fraction(pod.request.milli_cpu), Fraction(pod.request.memory_bytes), gpu

    def held(self, pod: Pod, node: str | None = None) -> Amount:
        """Return what a placed pod is charged."""
        at = self.nodes[node or self.places[pod.key].node or ""]
        cpu, memory, _ = self.asked(pod, None)
        return cpu, memory, charge(pod, at)

    def books(self) -> Books:
        """Return the queues as they are now."""
        books = Books(self.queues, self.total(), self.fair)
        for key, group in self.groups.items():
            if group.queue not in self.leaves:
                continue
            core = self._core(key)
            for pod in self.members[key]:
                if self.places[pod.key].state in COUNTS_FOR_QUEUE:
                    books.charge(group.queue, self.held(pod), firm=pod.key in core)
        return books

    def _core(self, key: str) -> set[str]:
        """Return the pods that count as non-preemptible: all, none, or the first of each leaf."""
        group = self.groups[key]
        if group.preemptibility is Preemptibility.PREEMPTIBLE:
            return set()
        if group.preemptibility is Preemptibility.NON_PREEMPTIBLE:
            return {pod.key for pod in self.members[key]}
        core: set[str] = set()
        for leaf in group.gang.leaves():
            pods = [
                (p, self.places[p.key].state) for p in self.members[key] if p.sub_group == leaf.name
            ]
            ended = sum(state is PodState.SUCCEEDED for _, state in pods)
            placed = in_order([pod for pod, state in pods if state in COUNTS_FOR_QUEUE])
            core |= {pod.key for pod in placed[: max(0, leaf.min_members - ended)]}
        return core

    def is_firm(self, key: str) -> bool:
        """Say whether what starts next of a group has to fit into quotas: appendix G for half of it."""
        kind = self.groups[key].preemptibility
        if kind is Preemptibility.SEMI_PREEMPTIBLE:
            return self.tree(key).state() == "below"
        return kind is Preemptibility.NON_PREEMPTIBLE

    def node_now(self, name: str) -> NodeNow:
        """Return a node with who is on it."""
        holders = []
        for pods in self.members.values():
            for pod in pods:
                place = self.places[pod.key]
                if place.node == name and place.state in HOLDS_RESOURCES:
                    holders.append(Holder(pod, self._kind(pod, place), place.devices))
        return NodeNow(self.nodes[name], holders)

    def _kind(self, pod: Pod, place: Place) -> str:
        if place.state is PodState.PIPELINED:
            return PROMISED
        if place.state is not PodState.RELEASING:
            return STAYS
        late = self.snapshot.now_ms - (
            self.snapshot.now_ms if pod.deleted_ms is None else pod.deleted_ms
        )
        return STAYS if late > self.policy.stuck_after_ms else LEAVES

    # -- order -----------------------------------------------------------------------------------

    def tree(self, key: str) -> Tree:
        """Return the tree of a group as it is now."""
        pods = [(pod, self.places[pod.key].state) for pod in self.members[key]]
        return Tree(self.groups[key], pods)

    def next_pods(self, key: str) -> list[Pod]:
        """Return what starts next of a group."""
        return self.tree(key).next_pods()

    def group_rank(self, key: str) -> tuple[object, ...]:
        """Sort groups of one queue: priority, how filled, age, name."""
        group = self.groups[key]
        state = ("below", "exact", "above").index(self.tree(key).state())
        return -group.priority, state, group.created, group.name

    def ask_of(self, key: str) -> Amount:
        """Return what starts next of a group asks, for the order of queues."""
        amount = ZERO
        for pod in self.next_pods(key):
            amount = plus(amount, self.asked(pod, self.smallest))
        return amount

    def next_group(self, waiting: set[str]) -> str:
        """Walk down from the top, at each level to the queue that is served first."""
        books = self.books()
        best: dict[str, str] = {}
        for key in sorted(waiting, key=self.group_rank):
            best.setdefault(self.groups[key].queue, key)

        def serve(parent: str | None) -> str | None:
            """Return the group that is first below a queue."""
            heads = {}
            for queue in self.snapshot.queues:
                if queue.parent == parent:
                    head = best.get(queue.name) or serve(queue.name)
                    if head is not None:
                        heads[queue.name] = head
            asks = {name: self.ask_of(head) for name, head in heads.items()}
            if not heads:
                return None
            compare = cmp_to_key(lambda a, b: -1 if books.is_before(a, b, asks) else 1)
            return heads[min(heads, key=compare)]

        found = serve(None)
        assert found is not None
        return found

    # -- the action --------------------------------------------------------------------------------

    def allocate(self) -> Mapping[str, Place]:
        """Start what can start; returns every pod's place after it."""
        waiting = {
            key
            for key, group in self.groups.items()
            if group.queue in self.leaves and self._has_pending(key) and self.tree(key).is_ready()
        }
        while waiting:
            key = self.next_group(waiting)
            before = dict(self.places)
            if not self.start(key):
                self.places = before
                waiting.discard(key)
            elif not self._has_pending(key):
                waiting.discard(key)
        return self.places

    def _has_pending(self, key: str) -> bool:
        return any(self.places[p.key].state is PodState.PENDING for p in self.members[key])

    def start(self, key: str) -> bool:
        """Place what starts next of a group, all of it or (to be undone) not."""
        group = self.groups[key]
        firm = self.is_firm(key)
        pods = self.next_pods(key)
        asked = ZERO
        for pod in pods:
            asked = plus(asked, self.asked(pod, self.largest))
        if not pods or not self.books().may_have(group.queue, asked, firm=firm):
            return False
        if not self._start_part(key, group.gang, pods, NodeSet(tuple(self.nodes), {}), firm):
            return False
        self._wait_together(key, pods)
        return True

    def _start_part(
        self, key: str, part: SubGroup, pods: Sequence[Pod], within: NodeSet, firm: bool
    ) -> bool:
        """Place these pods of a part of a group on the first set of nodes that takes them all."""
        for among in node_sets(self, key, part, pods, within):
            before = self._kept()
            if self._start_in(key, part, pods, among, firm):
                return True
            self._put_back(before)
        return False

    def _start_in(
        self, key: str, part: SubGroup, pods: Sequence[Pod], among: NodeSet, firm: bool
    ) -> bool:
        if part.is_leaf:
            return all(self.place(pod, key, among, firm=firm) for pod in pods)
        for child in self._in_turn_of(part, pods):
            names = {leaf.name for leaf in child.leaves()}
            own = [pod for pod in pods if pod.sub_group in names]
            if not self._start_part(key, child, own, among, firm):
                return False
        return True

    def _in_turn_of(self, part: SubGroup, pods: Sequence[Pod]) -> list[SubGroup]:
        """Return the children that have some of these pods, in the order of the pods."""
        of_leaf = {leaf.name: child for child in part.children for leaf in child.leaves()}
        names = dict.fromkeys(of_leaf[pod.sub_group].name for pod in pods)
        by_name = {child.name: child for child in part.children}
        return [by_name[name] for name in names]

    def _kept(self) -> tuple[dict[str, Place], ...]:
        return (dict(self.places),)

    def _put_back(self, kept: tuple[dict[str, Place], ...]) -> None:
        (self.places,) = kept

    def place(self, pod: Pod, key: str, among: NodeSet, *, firm: bool) -> bool:
        """Put a pod on the best of these nodes that takes it."""
        for name, (devices, is_now) in self.offers(pod, key, among, firm=firm):
            state = PodState.BOUND if is_now else PodState.PIPELINED
            self.places[pod.key] = Place(state, name, devices)
            return True
        return False

    def offers(
        self, pod: Pod, key: str, among: NodeSet, *, firm: bool
    ) -> Iterator[tuple[str, tuple[tuple[str, ...], bool]]]:
        """Yield the nodes that take a pod, the best first, with its devices and whether it is now."""
        books, queue = self.books(), self.groups[key].queue
        nodes = {name: self.node_now(name) for name in among.names}

        def rank(name: str) -> tuple[Fraction, str]:
            return -self.score(pod, name, nodes) - 10_000 * among.bonus.get(name, 0), name

        for name in sorted(nodes, key=rank):
            found = nodes[name].choose(pod, self.policy.placement)
            if found is not None and books.may_have(queue, self.held(pod, name), firm=firm):
                yield name, found

    def score(self, pod: Pod, name: str, nodes: Mapping[str, NodeNow]) -> Fraction:
        """Return how good a node is; the pull of shared GPUs, free now, its kind, its fill."""
        request, at = pod.request.gpu, nodes[name]
        score = self._fill(name, nodes, is_cpu=request is None)
        if (
            isinstance(request, Shared)
            and self.policy.placement.gpu == "pack"
            and at.joinable(request)
        ):
            score += 1000
        if at.fits(pod, at.now):
            score += 100
        if request is None and not at.node.gpus and not at.node.mig:
            score += 10
        return score

    def _fill(self, name: str, nodes: Mapping[str, NodeNow], *, is_cpu: bool) -> Fraction:
        def free(at: NodeNow) -> int:
            return at.later.milli_cpu if is_cpu else at.later.gpus

        def all_of(at: NodeNow) -> int:
            return at.node.milli_cpu if is_cpu else at.node.gpus

        strategy = self.policy.placement.cpu if is_cpu else self.policy.placement.gpu
        at = nodes[name]
        if all_of(at) == 0:
            return Fraction(0)
        if strategy == "spread":
            return Fraction(free(at), all_of(at))
        amounts = [free(other) for other in nodes.values() if all_of(other)]
        low, high = min(amounts), max(amounts)
        if high == low:
            return Fraction(0 if high == 0 else 9)
        return 9 * (1 - Fraction(free(at) - low, high - low))

    def _wait_together(self, key: str, started: list[Pod]) -> None:
        """A gang of which a part has to wait for leaving pods waits as a whole."""
        for leaf in self.groups[key].gang.leaves():
            places = [
                self.places[p.key].state for p in self.members[key] if p.sub_group == leaf.name
            ]
            promised = places.count(PodState.PIPELINED)
            has = sum(state in COUNTS_FOR_QUEUE for state in places) - promised
            if promised and has < leaf.min_members:
                for pod in started:
                    place = self.places[pod.key]
                    self.places[pod.key] = Place(PodState.PIPELINED, place.node, place.devices)
                return
