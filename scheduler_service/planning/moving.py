"""Moves alike running pods for alike waiting ones, one after another, as long as that goes.

Where all that wait are lone pods of one shape, and so is the victim whose turn it is, only these
two have a say: the victim leaves, and both take the best nodes in the order of their queues. What
changes is kept in plain numbers meanwhile, and booked for all of them in the end. The first group
that is special, or does not come out this way, ends it: the general search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.moves import Move, carry_out
from scheduler_service.ledger.nodes import NO_NODE, PROMISED_PART
from scheduler_service.ledger.queues import Amounts
from scheduler_service.ledger.shape import WHOLE, Shape
from scheduler_service.model.plan import Evict, Operation, Pipeline, Statement
from scheduler_service.model.policy import Action
from scheduler_service.model.reasons import MovedFor
from scheduler_service.planning import tree
from scheduler_service.planning.candidates import lone_pending
from scheduler_service.planning.finder import finder_of
from scheduler_service.planning.live_order import LiveOrder
from scheduler_service.planning.ordering import GroupOrder, Level, group_key
from scheduler_service.planning.settling import Settling, meet
from scheduler_service.planning.victims import Entry, Pool

Givers = Callable[[int, Amounts], Sequence[int]]
"""The leaf queues that could give when a leaf queue asks for so much."""


class Alike(NamedTuple):
    """The one shape of all that wait."""

    number: int
    shape: Shape
    asked: Amounts


class Found(NamedTuple):
    """A group that has a place now, and whom it moved."""

    group: Group
    victim: Entry
    move: Move


class Moving:
    """Many moves of one action at once; they can be taken up again after the general search."""

    def __init__(
        self, settling: Settling, pool: Callable[[], Pool], givers: Givers, action: Action
    ) -> None:
        board = self.board = settling.board
        self.settling = settling
        self.pool = pool
        self.givers = givers
        self.action = action
        self._found: list[Found] = []
        self._is_off = board.policy.max_simulations == 0
        self._alike: Alike | None = None
        self._leaves: Sequence[int] = ()
        self._victims: LiveOrder[Entry] | None = None

    def run(self, order: GroupOrder) -> int:
        """Move as long as that goes; return how many groups of the order have a place now."""
        if self._is_off or self.board.kept is not None:
            return 0
        board, before = self.board, len(self.board.statements)
        mark = board.checkpoint()
        self._found, self._leaves, self._victims = [], (), None
        try:
            self._move(order)
            if self._found:
                self._commit()
                order.settle()
        except Exception as error:  # noqa: BLE001 - the general way finds out whose fault it is
            self._is_off = True
            board.give_up(mark, before, error)
            order.restore([found.group for found in self._found])
            return 0
        return len(self._found)

    def _move(self, order: GroupOrder) -> None:
        leaf = order.first()
        if leaf is None:
            return
        self._alike = self._alike_all(leaf)
        while leaf is not None and self._alike is not None:
            if not self._serve(leaf, self._alike):
                return
            leaf = order.serve(leaf, self._look)

    def _alike_all(self, leaf: Level) -> Alike | None:
        """Return the shape of all that wait, if it is one of whole GPUs and nothing special."""
        ledger = self.board.ledger
        pod = lone_pending(self.board, leaf.groups[-1][1])
        if pod < 0:
            return None
        number = ledger.pods.shape[pod]
        shape = ledger.shapes.shapes[number]
        if shape.kind != WHOLE or shape.is_rare or not self.settling.all_ask(number):
            return None
        return Alike(number, shape, shape.asked[:3])

    def _look(self, leaf: Level) -> None:
        """Tell what the best group of a leaf asks for: what all ask for."""
        if self._alike is not None:
            leaf.asked = self._alike.asked

    # -- one group -----------------------------------------------------------------------------

    def _serve(self, leaf: Level, alike: Alike) -> bool:
        """Give the best group of a leaf a place at the cost of a move, or change nothing."""
        board, ledger = self.board, self.board.ledger
        key, group = leaf.groups[-1]
        pod = lone_pending(board, group)
        queues = ledger.queues
        if pod < 0 or pod in ledger.before or queues.limited_paths[group.queue]:
            return False
        victims = self._order_of(self.givers(group.queue, alike.asked))
        row = victims.next_leaf()
        entry = None if row is None else victims.head(row)
        if entry is None or not self._is_alike(entry, alike.number):
            return False
        is_first = self._is_first(group, key, entry, alike)
        mark = board.checkpoint()
        move = self._place(pod, entry, alike, is_first=is_first)
        if move is None:
            board.rollback(mark)
            return False
        self._found.append(Found(group, entry, move))
        victims.pop(entry.group.queue)
        less = tuple(-amount for amount in alike.shape.asked)
        queues.shift(
            group.queue, alike.asked, (less[0], less[1], less[2], less[3]), non_preemptible=False
        )
        victims.changed(group.queue)
        return True

    def _order_of(self, leaves: Sequence[int]) -> LiveOrder[Entry]:
        """Return the victims of these queues in their order, those that have moved left out."""
        if self._victims is None or leaves != self._leaves:
            ledger, gone = self.board.ledger, {id(found.victim) for found in self._found}
            order = LiveOrder[Entry](
                self.settling.places, lambda entry: entry.held(ledger), worst_first=True
            )
            for leaf in leaves:
                stack = self.pool().stack(leaf)
                order.put(leaf, [entry for entry in stack if id(entry) not in gone])
            self._leaves, self._victims = leaves, order
        return self._victims

    def _is_alike(self, entry: Entry, number: int) -> bool:
        """Say whether a victim is a lone running pod of the shape, on a node that is not overfull."""
        ledger, pod = self.board.ledger, entry.pod
        return (
            pod >= 0
            and pod not in ledger.before
            and ledger.pods.shape[pod] == number
            and entry.group.topology is None
            and ledger.nodes.all_gpu[ledger.pods.node[pod]] >= 0
            and not ledger.queues.limited_paths[entry.group.queue]
        )

    def _is_first(self, group: Group, key: object, entry: Entry, alike: Alike) -> bool:
        """Say whether the waiting group is placed before the victim that has left its place."""
        board, victim = self.board, entry.group
        if group.queue == victim.queue:
            return key < group_key(board, victim, tree.BELOW)  # type: ignore[operator]
        paths, places = board.ledger.queues.paths, self.settling.places
        mine, theirs = meet(paths[group.queue], paths[victim.queue])
        held = board.ledger.queues.allocated
        own, gone = held[theirs], entry.held(board.ledger)
        held[theirs] = (own[0] - gone[0], own[1] - gone[1], own[2] - gone[2])
        back = places.place(theirs, alike.asked)
        held[theirs] = own
        return places.place(mine, alike.asked) < back

    def _place(self, pod: int, entry: Entry, alike: Alike, *, is_first: bool) -> Move | None:
        """Take the victim off its node and book the best nodes for both; None if one has none."""
        pods, nodes, shape = self.board.ledger.pods, self.board.ledger.nodes, alike.shape
        moved, old = entry.pod, pods.node[entry.pod]
        nodes.turn(old, shape, pods.devices[moved], 1)
        finder = finder_of(self.board, alike.number, self.board.all_nodes)
        rows = {pod: NO_NODE, moved: NO_NODE}
        for turn in (pod, moved) if is_first else (moved, pod):
            found = finder.best()
            if found is None:
                return None
            if turn == moved and found[0] == old and not pods.devices[moved]:
                nodes.turn(old, shape, (), -1)
                continue
            rows[turn] = found[0]
            nodes.book(found[0], shape, (), PROMISED_PART)
        return Move(pod, rows[pod], moved, rows[moved])

    # -- what comes of it ----------------------------------------------------------------------

    def _commit(self) -> None:
        """Book all moves, a statement for each group."""
        board, ledger, found = self.board, self.board.ledger, self._found
        board.statements += [self._statement(group, move) for group, _, move in found]
        charge = ledger.shape_of(found[0].move.winner).charge_milli
        carry_out(ledger, [move for _, _, move in found], charge)
        pool = self.pool()
        for group, victim, _ in found:
            pool.forget(victim.group)
            self.settling.forget(group)
        counts = board.counts
        counts.groups_tried += len(found)
        counts.simulations += len(found)
        counts.victims_walked += len(found)

    def _statement(self, group: Group, move: Move) -> Statement:
        """Return what one group gets, and why another one moves, unless that one stays."""
        pods, name_of = self.board.ledger.pods, self.board.ledger.nodes.name_of
        promise = Pipeline(pods.keys[move.winner], name_of(move.node))
        if move.target == NO_NODE:
            return Statement(self.action, group.key, (promise,))
        key, name = pods.keys[move.moved], name_of(move.target)
        reason = self.board.evict_reasons[move.moved] = MovedFor(group.key, name)
        operations: tuple[Operation, ...] = (
            Evict(key, name_of(pods.node[move.moved]), reason),
            Pipeline(key, name, moved=True),
            promise,
        )
        return Statement(self.action, group.key, operations)
