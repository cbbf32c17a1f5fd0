"""What one plan works on: the ledger, the policy, the moment, and what is derived once a cycle.

All changes go through `bind`, `promise` and `evict`; a statement is what they left behind when it
is committed. Nothing here outlives the plan.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_service.ledger import states
from scheduler_service.ledger.deal import Deal
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.journal import MISSING
from scheduler_service.ledger.load import shares_of
from scheduler_service.ledger.nodes import NOBODY
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.queues import Amounts, Asked
from scheduler_service.ledger.starts import UNPLACED, Run, start_many
from scheduler_service.ledger.store import Ledger
from scheduler_service.ledger.swap import release
from scheduler_service.model.claim import ClaimAllocation
from scheduler_service.model.gpu import GpuShare
from scheduler_service.model.plan import Bind, Evict, Operation, Pipeline, Statement
from scheduler_service.model.policy import Action, Policy
from scheduler_service.model.reasons import Behind, Reason
from scheduler_service.planning.device_names import FRESH, DeviceNames
from scheduler_service.planning.kept import Kept
from scheduler_service.planning.queue_order import Standing
from scheduler_service.planning.shares import GpuSizes, capacity_of, fair_shares
from scheduler_service.planning.tree import Chunk, active

Mark = tuple[int, int]


class ShortWayLost(RuntimeWarning):
    """A bug: a short way of the planner broke, and the cycle took the general one."""


class NodeSet:
    """Nodes to choose from, all (`rows` None) or some, with an optional bonus for each."""

    __slots__ = ("bonus", "finders", "rows")

    def __init__(self, rows: list[int] | None = None, bonus: dict[int, int] | None = None) -> None:
        self.rows = rows
        self.bonus = bonus
        self.finders: dict[int, Any] = {}
        """By shape number: the nodes of this set in order (see `finder`)."""


@dataclass(slots=True)
class Counts:
    """How much was looked at."""

    nodes_examined: int = 0
    groups_tried: int = 0
    victims_walked: int = 0
    simulations: int = 0


@dataclass(slots=True)
class Board:
    """The working place of one plan."""

    ledger: Ledger
    policy: Policy
    now_ms: int
    total: Amounts = (0, 0, 0)
    sizes: GpuSizes = field(default_factory=lambda: GpuSizes(0, 0))
    fair_share: list[Amounts] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    """By queue row: what of its place in the order stays the same; made when first needed."""
    counts: Counts = field(default_factory=Counts)
    statements: list[Statement] = field(default_factory=list)
    reasons: dict[str, dict[Action, list[Reason]]] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    """Groups in the order in which allocate took them up, for positions."""
    all_nodes: NodeSet = field(default_factory=NodeSet)
    costs: Any = None
    """What places cost under least fragmentation, made when first needed (see `fragmentation`)."""
    evict_reasons: dict[int, Reason] = field(default_factory=dict)
    stale: dict[str, int] = field(default_factory=dict)
    devices: DeviceNames = field(default_factory=DeviceNames)
    kept: Kept | None = None
    """What is kept for a group that waits for more room than is free."""
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """Groups that met an internal error, with its name: nothing is done for or to them."""
    ages: dict[str, int] = field(default_factory=dict)
    """By how many points of priority waiting groups are lifted, of those that are."""
    touched: list[int] = field(default_factory=list)
    """Pods changed since the last commit; may name one twice, or one that was rolled back."""

    @classmethod
    def of(cls, ledger: Ledger, policy: Policy, now_ms: int) -> Board:
        """Return the board for one plan, with fair shares as of now."""
        board = cls(ledger, policy, now_ms)
        board.total, board.sizes = capacity_of(ledger.nodes)
        board.fair_share = fair_shares(ledger, policy, board.total, board.sizes)
        if policy.age_ms > 0:
            board.ages = _ages(ledger, policy, now_ms)
        return board

    # -- changes -----------------------------------------------------------------------------

    def bind(self, pod: int, node: int, devices: Devices) -> None:
        """Put a pod on a node now."""
        self.ledger.remember(pod)
        self.touched.append(pod)
        self.ledger.start(pod, states.BINDING, node, devices)

    def promise(self, pod: int, node: int, devices: Devices) -> None:
        """Promise a pod a place. One that leaves it in this very try stays where it is."""
        ledger, pods = self.ledger, self.ledger.pods
        self.touched.append(pod)
        if pods.state[pod] != states.RELEASING:
            ledger.remember(pod)
            ledger.start(pod, states.PIPELINED, node, devices)
            return
        was = ledger.before[pod]
        if was is not None and was[1] == node and was[2] == devices:
            ledger.move(pod, was[0], node, devices)
        else:
            ledger.move_away(pod, node, devices)

    def start_many(self, group: Group, pods: Sequence[int], runs: Sequence[Run]) -> None:
        """Bind or promise alike plain pods of a leaf; what they hold is booked on the nodes."""
        self.touched.extend(pods)
        start_many(self.ledger, group, pods, runs)

    def evict(self, pod: int) -> None:
        """Tell a pod to go; it holds its place until it has left. A promise is only dropped."""
        pods = self.ledger.pods
        self.ledger.remember(pod)
        self.touched.append(pod)
        if pods.state[pod] == states.PIPELINED and pod not in pods.left:
            self.ledger.move(pod, states.PENDING)
            return
        self.ledger.move(pod, states.RELEASING, pods.node[pod], pods.devices[pod])

    def release(self, pods: list[int]) -> None:
        """Tell many alike lone pods of a queue to go, as of a statement that is committed."""
        release(self.ledger, pods)

    def is_evicted_now(self, pod: int) -> bool:
        """Say whether a pod leaves only by the statement that is being tried."""
        ledger = self.ledger
        is_leaving = ledger.pods.state[pod] == states.RELEASING
        return is_leaving and ledger.before.get(pod) is not None

    @property
    def revision(self) -> tuple[int, int]:
        """What is equal only as long as nothing was decided in between."""
        return len(self.ledger.journal.entries), len(self.statements)

    def checkpoint(self) -> Mark:
        """Return a mark to roll back to."""
        return len(self.ledger.journal.entries), len(self.touched)

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark."""
        self.ledger.rollback(mark[0])
        del self.touched[mark[1] :]

    def give_up(self, mark: Mark, statements: int, error: Exception) -> None:
        """Undo what a short way has begun, for the general one to find out whose fault it is.

        It is told, since the outcome alone would not: the general way may well succeed.
        """
        self.rollback(mark)
        del self.statements[statements:]
        warnings.warn(ShortWayLost(f"{type(error).__name__}: {error}"), stacklevel=2)

    # -- statements --------------------------------------------------------------------------

    def commit(self, action: Action, group: str) -> Statement | None:
        """Make what changed since the last commit a statement; None if nothing did."""
        ledger = self.ledger
        if len(self.touched) == 1:
            bound = self._only_bound(self.touched[0])
            if bound is not None:
                self.touched.clear()
                statement = Statement(action, group, (bound,))
                self.statements.append(statement)
                return statement
        operations: list[Operation] = []
        for pod in dict.fromkeys(self.touched) if len(self.touched) > 1 else self.touched:
            was = ledger.before.get(pod)
            if was is None or (was[0] == states.PIPELINED and self._has_changed(pod, was)):
                self._take_back(pod, action)
            found = self._operations(pod)
            if found:
                operations.extend(found)
                ledger.journal.set(ledger.before, pod, None)
        self.touched.clear()
        if not operations:
            return None
        statement = Statement(action, group, tuple(operations))
        self.statements.append(statement)
        return statement

    def commit_bound(self, action: Action, group: str, pods: Sequence[int]) -> None:
        """Make bindings of plain pods a statement; all were pending, nothing else was touched."""
        table, models = self.ledger.pods, self.ledger.nodes.models
        binds: list[Operation] = []
        entries, before = self.ledger.journal.entries, self.ledger.before
        for pod in pods:
            entries.append((before, pod, before.get(pod, MISSING)))
            before[pod] = None  # what this plan has bound is no victim in it
            node = models[table.node[pod]]
            if node is not None:
                ids = table.devices[pod]
                if node.devices:
                    ids = self.devices.named(self.ledger, pod)
                binds.append(Bind(table.keys[pod], node.name, self._shares(pod, ids)))
        self.statements.append(Statement(action, group, tuple(binds)))

    def commit_dealt(self, action: Action, deals: Sequence[Deal]) -> None:
        """Make each deal a statement; their pods are on their nodes already."""
        models, keys, statements = self.ledger.nodes.models, self.ledger.pods.keys, self.statements
        for group, pods, nodes, _, devices in deals:
            binds: list[Operation] = []
            for pod, row in zip(pods, nodes, strict=True):
                node = models[row]
                if node is not None:
                    shares: tuple[GpuShare, ...] = ()
                    if node.devices or devices:
                        shares = self._shares(pod, self.devices.named(self.ledger, pod))
                    binds.append(Bind(keys[pod], node.name, shares))
            statements.append(Statement(action, group.key, tuple(binds)))

    def _only_bound(self, pod: int) -> Bind | None:
        """Return the binding of a pod that was pending and is bound, the case met most."""
        pods, before = self.ledger.pods, self.ledger.before
        was, node = before.get(pod), pods.node[pod]
        if was is None or was[0] != states.PENDING or pods.state[pod] != states.BINDING:
            return None
        model = self.ledger.nodes.models[node]
        if model is None or model.devices or pods.devices[pod]:
            return None
        self.ledger.journal.entries.append((before, pod, was))
        before[pod] = None
        return Bind(pods.keys[pod], model.name, (), self._claims(pod, node))

    def _take_back(self, pod: int, action: Action) -> None:
        """Take the promise of a pod out of the statements before: it is made anew, or dropped."""
        key = self.ledger.pods.models[pod].key
        group = self.ledger.group_of(pod)
        if group is not None and self.ledger.pods.state[pod] == states.PENDING:
            self.say(action, group, Behind(1))
        kept: list[Statement] = []
        for statement in self.statements:
            operations = tuple(
                operation
                for operation in statement.operations
                if not (isinstance(operation, Pipeline) and operation.pod == key)
            )
            if operations:
                kept.append(Statement(statement.action, statement.group, operations))
        self.statements[:] = kept
        self.ledger.journal.put(self.ledger.before, pod, UNPLACED)

    def _has_changed(self, pod: int, was: tuple[int, int, Devices]) -> bool:
        pods = self.ledger.pods
        return (pods.state[pod], pods.node[pod], pods.devices[pod]) != was

    def _operations(self, pod: int) -> list[Operation]:
        pods = self.ledger.pods
        was = self.ledger.before.get(pod)
        state, node = pods.state[pod], pods.node[pod]
        if was is None or not self._has_changed(pod, was):
            return []
        key = pods.keys[pod]
        operations: list[Operation] = []
        if states.HOLDS_NOW[was[0]] and was[0] != states.RELEASING:
            old_name = self.ledger.nodes.name_of(was[1])
            operations.append(Evict(key, old_name, self.evict_reasons[pod]))
        name = self.ledger.nodes.name_of(node)
        if state == states.BINDING:
            shares = self._shares(pod, self.devices.named(self.ledger, pod))
            operations.append(Bind(key, name, shares, self._claims(pod, node)))
        elif state == states.PIPELINED:
            known = tuple(i for i in pods.devices[pod] if not i.startswith(FRESH))
            shares = self._shares(pod, known)
            operations.append(Pipeline(key, name, shares, moved=bool(operations)))
        return operations

    def _shares(self, pod: int, ids: Devices) -> tuple[GpuShare, ...]:
        if not ids:
            return ()
        node = self.ledger.pods.node[pod]
        return shares_of(self.ledger, self.ledger.shape_of(pod), node, ids)

    def _claims(self, pod: int, node: int) -> tuple[tuple[str, ClaimAllocation], ...]:
        ledger, model = self.ledger, self.ledger.pods.models[pod]
        if not model.resource_claims:
            return ()
        name = ledger.nodes.name_of(node)
        keys = [f"{model.namespace}/{claim}" for claim in model.resource_claims]
        return tuple(
            (key, ledger.claims.models[key].allocation or ClaimAllocation(name))
            for key in keys
            if key in ledger.claims.models
        )

    def pipelines(self) -> Iterator[Pipeline]:
        """Yield all promises made so far."""
        for statement in self.statements:
            for operation in statement.operations:
                if isinstance(operation, Pipeline):
                    yield operation

    # -- reasons and amounts -----------------------------------------------------------------

    def say(self, action: Action, group: Group, reason: Reason) -> None:
        """Note why a group waits, once per action and reason."""
        reasons = self.reasons.setdefault(group.key, {}).setdefault(action, [])
        if reason not in reasons:
            reasons.append(reason)

    def asked(self, pods: tuple[int, ...]) -> Asked:
        """Return what pods ask for together: CPU, memory, milli-GPU, device memory."""
        ledger = self.ledger
        cpu = memory = gpu = mib = 0
        shapes, shape_no = ledger.shapes.shapes, ledger.pods.shape
        count, last = 0, -1
        for pod in (*pods, -1):
            number = shape_no[pod] if pod >= 0 else -1
            if number == last:
                count += 1
                continue
            if last >= 0:
                one = shapes[last].asked
                cpu, memory = cpu + count * one[0], memory + count * one[1]
                gpu, mib = gpu + count * one[2], mib + count * one[3]
            count, last = 1, number
        for pod in pods:
            shape = shapes[shape_no[pod]]
            if shape.claims:
                gpu += ledger.claims.gpus(ledger.pods.models[pod].namespace, shape) * 1000
        return cpu, memory, gpu, mib

    def asked_by(self, chunk: Chunk) -> Asked:
        """Return what a chunk asks for together."""
        pods = chunk.pods
        if len(pods) == 1:
            shape = self.ledger.shapes.shapes[self.ledger.pods.shape[pods[0]]]
            if not shape.claims:
                return shape.asked
        return self.asked(pods or chunk.members())

    def fresh_devices(self, node: int, count: int) -> list[str]:
        """Return names for GPUs of a node that may be shared from now on; real ids come last."""
        taken = self.ledger.nodes.shared[node]
        names: list[str] = []
        number = 0
        while len(names) < count:
            name = f"{FRESH}{number}"
            share = taken.get(name)
            if share is None or share == NOBODY:
                names.append(name)
            number += 1
        return names


def _ages(ledger: Ledger, policy: Policy, now_ms: int) -> dict[str, int]:
    """Return by how much groups of which nothing runs are lifted for having waited."""
    found: dict[str, int] = {}
    for key, pending in ledger.open_groups.items():
        group = ledger.groups[key]
        points = min(policy.max_age, group.model.waited_ms(now_ms) // policy.age_ms)
        if pending and points and not any(map(active, group.leaves.values())):
            found[key] = points
    return found
