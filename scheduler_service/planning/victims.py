"""Who may have to go, in the order in which they would: worst queue first, worst group first.

What belongs here: candidates, protection by a minimum run time, and the walk over victims step by
step. What never does: whether the room is enough (`scenario`) or the losses fair (the actions).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import Amounts
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.planning import tree
from scheduler_service.planning.board import Board
from scheduler_service.planning.leaving import Leaving
from scheduler_service.planning.live_order import LiveOrder
from scheduler_service.planning.ordering import GroupKey, QueuePlaces, group_key


class Step(NamedTuple):
    """Pods of one group that leave together: one loss, with what each is charged in milli-GPU."""

    group: Group
    pods: tuple[int, ...]
    charges: tuple[int, ...]

    def only(self, keep: Callable[[int], bool]) -> Step:
        """Return the step with some of its pods."""
        kept = [pair for pair in zip(self.pods, self.charges, strict=True) if keep(pair[0])]
        return Step(self.group, tuple(p for p, _ in kept), tuple(charge for _, charge in kept))

    def held(self, ledger: Ledger) -> Amounts:
        """Return what its pods hold (or held): milli-CPU, bytes, milli-GPU."""
        return held(ledger, (self,))


def held(ledger: Ledger, steps: Iterable[Step]) -> Amounts:
    """Return what the pods of all steps hold (or held): milli-CPU, bytes, milli-GPU."""
    shapes, shape_no = ledger.shapes.shapes, ledger.pods.shape
    cpu = memory = gpu = 0
    for _, pods, charges in steps:
        for pod in pods:
            shape = shapes[shape_no[pod]]
            cpu += shape.milli_cpu
            memory += shape.memory_bytes
        gpu += sum(charges)
    return cpu, memory, gpu


RUNNING, EXACT = states.RUNNING, tree.EXACT
PREEMPTIBLE, SEMI = Preemptibility.PREEMPTIBLE, Preemptibility.SEMI_PREEMPTIBLE
_UNTOUCHED: Final = (states.PENDING, -1, ())


def may_lose(board: Board, group: Group) -> bool:
    """Say whether others may take something of a group: preemptible, with pods that have a place.

    What this plan has bound or moved is left alone until the next one; a promise may be dropped.
    """
    if group.model.preemptibility is Preemptibility.NON_PREEMPTIBLE:
        return False
    if group.is_flat:
        if not tree.active(group.leaf):
            return False
    elif not any(tree.active(leaf) for leaf in group.leaves.values()):
        return False
    before, pods = board.ledger.before, board.ledger.pods
    return not before or not any(
        before.get(pod, _UNTOUCHED) is None
        and (pod in pods.left or states.IS_ALLOCATED[pods.state[pod]])
        for pod in group.pods()
    )


def lone_pod(group: Group) -> int | None:
    """Return the pod of a group that has one only, or None."""
    if group.is_flat:
        pods = group.leaf.pods
        if len(pods) == 1:
            return pods[0]
    return None


def step_of(ledger: Ledger, group: Group, pods: Iterable[int]) -> Step:
    """Return placed pods of a group as a step."""
    found = tuple(pods)
    charge = ledger.pods.charge
    return Step(group, found, tuple(charge[pod] for pod in found))


class Entry(msgspec.Struct, gc=False, eq=False):
    """A group in victim order; what is left of it is looked at when its turn comes."""

    key: GroupKey
    group: Group
    surplus_only: bool = False
    pod: int = -1
    """The pod of a group that was one running pod, and needed, when victims were listed; else -1."""
    leaving: Leaving | None = None
    is_gone: bool = False
    known_held: Amounts | None = None

    def __lt__(self, other: Entry) -> bool:
        return self.key < other.key

    def begin(self, ledger: Ledger) -> Leaving:
        """Return what is left of the group."""
        return self.leaving or Leaving(ledger, self.group)

    def only_pod(self) -> int | None:
        """Return the pod of a group that has no other, and so leaves as a whole."""
        return None if self.surplus_only else lone_pod(self.group)

    def held(self, ledger: Ledger) -> Amounts:
        """Return what is left of the group in amounts."""
        if self.known_held is None:
            pod = self.only_pod()
            pods = self.begin(ledger).pods if pod is None else (pod,)
            self.known_held = step_of(ledger, self.group, pods).held(ledger)
        return self.known_held


Stacks = Mapping[int, Sequence[Entry]]
"""Entries by leaf queue, the last one to go first."""


class Pool:
    """All groups that may lose something in this action, by leaf queue, in victim order."""

    def __init__(self, board: Board, spares: Callable[[Group], bool] | None = None) -> None:
        self.board = board
        ledger, is_fair_to_users = board.ledger, board.policy.user_fairness
        stacks: list[list[Entry]] = [[] for _ in ledger.queues.models]
        works = [ledger.queues.runs_work(row) for row in range(len(stacks))]
        works.append(False)  # no queue
        before, aside = ledger.before, board.set_aside
        for group in ledger.groups.values():
            if aside and group.key in aside:
                continue
            queue, model, leaf = group.queue, group.model, group.leaf
            # Most groups are one pod that runs, may be preempted and is needed: asked right here.
            if (
                len(leaf.pods) == 1
                and leaf.counts[RUNNING] == 1
                and group.is_flat
                and leaf.spec.min_members == 1
                and model.preemptibility is PREEMPTIBLE
            ) and (pod := leaf.pods[0]) not in before:
                is_semi = False
            elif may_lose(board, group):
                pod, is_semi = -1, model.preemptibility is SEMI
            else:
                continue
            if not works[queue] or (spares is not None and spares(group)):
                continue
            if pod < 0 or is_fair_to_users:
                key = group_key(board, group)
            else:
                key = (-model.priority, 0, EXACT, model.created, model.name, model.namespace)
            stacks[queue].append(Entry(key, group, is_semi, pod))
        self.stacks = {leaf: stack for leaf, stack in enumerate(stacks) if stack}
        for stack in self.stacks.values():
            stack.sort(key=attrgetter("key"))
        self._entry_of: dict[int, Entry] | None = None
        self._left = {leaf: len(stack) for leaf, stack in self.stacks.items()}
        self.has_min_runtimes = any(
            queue.preempt_min_runtime_ms or queue.reclaim_min_runtime_ms
            for queue in board.ledger.queues.models
        )

    def _entries(self) -> dict[int, Entry]:
        """Return the entries by group, listed when somebody first asks for one."""
        if self._entry_of is None:
            stacks = self.stacks.values()
            self._entry_of = {
                id(entry.group): entry for stack in stacks for entry in stack if not entry.is_gone
            }
        return self._entry_of

    def renew(self, group: Group) -> None:
        """Take over that this plan has touched a group: what it still has it may still lose."""
        before = self.board.ledger.before
        known = [before[pod] for pod in group.pods() if pod in before]
        if all(was is not None and was[0] != states.PENDING for was in known):
            return  # it is as it was: nothing new, and no promise dropped
        is_listed = id(group) in self._entries()
        self.forget(group)
        if is_listed and may_lose(self.board, group):
            is_semi = group.model.preemptibility is SEMI
            entry = Entry(group_key(self.board, group), group, is_semi)
            insort(self.stacks[group.queue], entry)
            self._entries()[id(group)] = entry
            self._left[group.queue] += 1

    def forget(self, group: Group) -> None:
        """Take a group out."""
        entry = self._entries().pop(id(group), None)
        if entry is None:
            return
        entry.is_gone = True
        stack = self.stacks[group.queue]
        while stack and stack[-1].is_gone:
            stack.pop()
        self._left[group.queue] -= 1

    def drop_all(self, entries: Sequence[Entry]) -> None:
        """Take out many groups of one leaf queue. Not empty."""
        for entry in entries:
            entry.is_gone = True
        if self._entry_of is not None:
            for entry in entries:
                self._entry_of.pop(id(entry.group), None)
        leaf = entries[0].group.queue
        self._left[leaf] -= len(entries)
        stack = self.stacks[leaf]
        while stack and stack[-1].is_gone:
            stack.pop()

    def drop(self, leaf: int, count: int) -> None:
        """Take out the last groups of a leaf queue: this plan has touched them."""
        self.drop_all(self.stack(leaf)[-count:])

    def stack(self, leaf: int, *, without: Group | None = None) -> list[Entry]:
        """Return the groups of a leaf queue, the last one to go first."""
        if without is not None and id(without) in self._entries():
            return [entry for entry in self.stack(leaf) if entry.group is not without]
        stack = self.stacks.get(leaf, [])
        if len(stack) > self._left.get(leaf, 0):
            stack[:] = [entry for entry in stack if not entry.is_gone]
        return stack

    def guarded(
        self, stack: Sequence[Entry], min_runtime: Callable[[Group], int]
    ) -> Sequence[Entry]:
        """Return a stack in which groups that started lately may lose their surplus only."""
        if not self.has_min_runtimes:
            return stack
        return [
            Entry(entry.key, entry.group, surplus_only=True)
            if self._started_within(entry.group, min_runtime)
            else entry
            for entry in stack
        ]

    def _started_within(self, group: Group, min_runtime: Callable[[Group], int]) -> bool:
        started = group.model.started_ms
        return started is not None and self.board.now_ms < started + min_runtime(group)


def walk(places: QueuePlaces, stacks: Stacks, *, max_groups: int | None = None) -> Iterator[Step]:
    """Yield victims, the worst of the worst queue first, one step after another."""
    board, ledger = places.board, places.board.ledger
    filled = [leaf for leaf in sorted(stacks) if stacks[leaf]]
    order: _OneQueue | LiveOrder[Entry]
    if len(filled) == 1:
        order = _OneQueue(filled[0], stacks[filled[0]])
    else:
        order = LiveOrder(places, lambda entry: entry.held(ledger), worst_first=True)
        for leaf in filled:
            order.put(leaf, stacks[leaf])
    taken: set[str] = set()
    while (leaf_row := order.next_leaf()) is not None:
        entry = order.pop(leaf_row)
        taken.add(entry.group.model.key)
        if max_groups is not None and len(taken) > max_groups:
            return
        step = _next_step(board, entry, order, leaf_row)
        if step is not None:
            board.counts.victims_walked += 1
            yield step


def _next_step(
    board: Board, entry: Entry, order: _OneQueue | LiveOrder[Entry], leaf_row: int
) -> Step | None:
    """Return what leaves of a group next, and put back what is left of it."""
    ledger = board.ledger
    pod = entry.only_pod()
    if pod is not None:
        if isinstance(order, LiveOrder):
            order.lose(leaf_row, entry.held(ledger))
        return Step(entry.group, (pod,), (ledger.pods.charge[pod],))
    leaving = entry.begin(ledger)
    if entry.surplus_only and leaving.progress() != tree.ABOVE:
        return None
    if isinstance(order, LiveOrder):  # a group counts whole, each time its turn comes (§3.5)
        order.lose(leaf_row, entry.held(ledger))
    gone = step_of(ledger, entry.group, leaving.leave())
    if len(leaving):
        own = entry.key
        key = (own[0], own[1], leaving.progress(), own[3], own[4], own[5])
        rest = Entry(key, entry.group, surplus_only=entry.surplus_only, leaving=leaving)
        order.insert(leaf_row, rest)
    return gone


class _OneQueue:
    """Victims of one queue only: no queues to compare, nothing to copy."""

    def __init__(self, leaf: int, stack: Sequence[Entry]) -> None:
        self._leaf = leaf
        self._stack = stack
        self._end = len(stack)
        self._back: list[Entry] = []
        """What is left of groups that lost something, in their order."""

    def next_leaf(self) -> int | None:
        return self._leaf if self._end or self._back else None

    def pop(self, _: int) -> Entry:
        back = self._back
        if back and (not self._end or self._stack[self._end - 1] < back[-1]):
            return back.pop()
        self._end -= 1
        return self._stack[self._end]

    def insert(self, _: int, entry: Entry) -> None:
        insort(self._back, entry)


def preempt_min_runtime(board: Board, victim: Group) -> int:
    """Return the run time for which a group is safe from its own queue: the nearest value above."""
    queues = board.ledger.queues
    for row in queues.paths[victim.queue]:
        value = queues.models[row].preempt_min_runtime_ms
        if value is not None:
            return value
    return 0


def reclaim_min_runtime(board: Board, reclaimer: int, victim: Group) -> int:
    """Return the run time for which a group is safe from another queue.

    The search starts at the first queue on the victim's path that is not on the reclaimer's; with
    different top queues only the victim's top queue counts.
    """
    queues = board.ledger.queues
    mine, theirs = queues.paths[reclaimer], queues.paths[victim.queue]
    if mine[-1] != theirs[-1]:
        return queues.models[theirs[-1]].reclaim_min_runtime_ms or 0
    own = [row for row in theirs if row not in mine]
    start = theirs.index(own[-1]) if own else 0
    for row in theirs[start:]:
        value = queues.models[row].reclaim_min_runtime_ms
        if value is not None:
            return value
    return 0
