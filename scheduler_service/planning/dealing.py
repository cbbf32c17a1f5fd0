"""Deals free room to groups that ask for nothing special, one after another in their order.

Most groups are alike pods that start together or not at all, and take the best node at once. What
they change is kept in plain numbers while they are dealt, and booked for all of them in the end.
The first that is special, or finds no room, ends it: the general way decides what becomes of it,
and dealing goes on behind it. Property tests hold the outcome to that of the general way.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler_service.ledger import states
from scheduler_service.ledger.deal import Deal, deal
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.nodes import BOUND_PART
from scheduler_service.ledger.pods import Devices
from scheduler_service.ledger.queues import Amounts
from scheduler_service.ledger.shape import Shape
from scheduler_service.model.pod_group import Preemptibility
from scheduler_service.planning import judge, plain, tree
from scheduler_service.planning.board import Board
from scheduler_service.planning.finder import finder_of
from scheduler_service.planning.ordering import GroupOrder, Level
from scheduler_service.planning.placement import MANY
from scheduler_service.planning.tree import Chunk

PENDING, PREEMPTIBLE = states.PENDING, Preemptibility.PREEMPTIBLE


class Ask(NamedTuple):
    """What a plain group would start: all its pods, of one shape."""

    group: Group
    pods: tuple[int, ...]
    number: int
    amounts: Amounts
    charge: int
    is_part: bool
    """Whether they take parts of GPUs."""


class Kind(NamedTuple):
    """What is the same for all plain pods of a shape."""

    amounts: Amounts
    charge: int
    is_part: bool


class Dealing:
    """The dealing of one cycle; it can be taken up again after the general way had its turn."""

    def __init__(self, board: Board, order: GroupOrder) -> None:
        self.board = board
        self.order = order
        self._is_off = bool(board.ledger.affinity_pods)
        self._kinds: dict[int, Kind | None] = {}
        """By shape; None if it is special."""
        self._asks: dict[int, Ask | None] = {}
        """By leaf: what its best group asks for; None if that is special."""
        self._deals: list[Deal] = []
        self._held: dict[int, Amounts] = {}
        """What queues held before the dealing."""
        self._number = -1
        self._row = -1
        self._used = self._left = 0
        """The node that is dealt out: to pods of which shape, how many so far, how many more."""

    def pop(self) -> tuple[Group, Chunk | None] | None:
        """Deal as long as that goes; return the group that is next then, and what it starts."""
        self._run()
        return self.order.pop()

    def _run(self) -> None:
        if self._is_off:
            return
        board, before = self.board, len(self.board.statements)
        mark = board.checkpoint()
        try:
            self._deal()
            if self._deals:
                self._commit()
        except Exception as error:  # noqa: BLE001 - the general way finds out whose fault it is
            self._is_off = True
            board.give_up(mark, before, error)
            self.order.restore([dealt.group for dealt in self._deals])

    def _deal(self) -> None:
        """Start groups in turn, until one is special or finds no room."""
        asks, order = self._asks, self.order
        asks.clear()
        leaf = order.first()
        while leaf is not None:
            row = leaf.row
            if row not in asks:
                asks[row] = self._plain(leaf.groups[-1][1])
            ask = asks[row]
            if ask is None or not self._take(ask):
                break
            leaf = order.serve(leaf, self._look)
        self._book()

    # -- who is next ---------------------------------------------------------------------------

    def _look(self, leaf: Level) -> None:
        """Find out what the best group of a leaf asks for."""
        ask = self._asks[leaf.row] = self._plain(leaf.groups[-1][1])
        if ask is None:
            self.order.look_ahead(leaf)
        else:
            leaf.asked = ask.amounts

    def _plain(self, group: Group) -> Ask | None:
        """Return what a group starts if that is all of it, alike, and bound by no rule."""
        ledger, leaf, model = self.board.ledger, group.leaf, group.model
        pods, spec = leaf.pods, leaf.spec
        count = len(pods)
        if (
            leaf.counts[PENDING] != count
            or count not in (1, spec.min_members)
            or not group.is_flat
            or model.preemptibility is not PREEMPTIBLE
            or group.topology is not None
            or ledger.queues.limited_paths[group.queue]
        ):
            return None
        number = ledger.pods.shape[pods[0]]
        kind = self._kinds[number] if number in self._kinds else self._kind(number)
        if kind is None or pods[0] in ledger.before:
            return None
        if count == 1:
            return Ask(group, (pods[0],), number, *kind)
        if not self._are_alike(pods, number):
            return None
        (cpu, memory, gpu), charge, is_part = kind
        amounts = (cpu * count, memory * count, gpu * count)
        ordered = tuple(tree.ordered_pods(ledger, leaf))
        return Ask(group, ordered, number, amounts, charge, is_part)

    def _kind(self, number: int) -> Kind | None:
        shape = self.board.ledger.shapes.shapes[number]
        found = self._kinds[number] = _kind_of(shape)
        return found

    def _are_alike(self, pods: list[int], number: int) -> bool:
        shape, before = self.board.ledger.pods.shape, self.board.ledger.before
        return all(shape[pod] == number and pod not in before for pod in pods)

    # -- where it starts -----------------------------------------------------------------------

    def _take(self, ask: Ask) -> bool:
        """Give a group its nodes and its queues the charge, or change nothing."""
        if ask.number != self._number:
            self._book()
            self._number = ask.number
        dealt: Deal | None = None
        if ask.is_part:
            dealt = self._parts(ask)
        elif len(ask.pods) > 1:
            dealt = self._gang(ask)
        elif self._left or self._open_node():
            self._left -= 1
            self._used += 1
            dealt = Deal(ask.group, ask.pods, [self._row], ask.charge)
        if dealt is None:
            return False
        self._deals.append(dealt)
        cpu, memory, gpu = ask.amounts
        queues, held = self.board.ledger.queues, self._held
        allocated = queues.allocated
        for row in queues.paths[ask.group.queue]:
            own = allocated[row]
            if row not in held:
                queues.note(row)
                held[row] = own
            allocated[row] = (own[0] + cpu, own[1] + memory, own[2] + gpu)
        return True

    def _parts(self, ask: Ask) -> Deal | None:
        """Take parts of GPUs for all pods of a group, or change nothing: pod by pod."""
        board, ledger = self.board, self.board.ledger
        shape = ledger.shapes.shapes[ask.number]
        finder = finder_of(board, ask.number, board.all_nodes)
        mark = ledger.checkpoint()
        nodes: list[int] = []
        devices: list[Devices] = []
        for _ in ask.pods:
            found = finder.best()
            ids = plain.shares_now(board, found[0], shape) if found and found[1] else None
            if found is None or ids is None:
                ledger.rollback(mark)
                return None
            ledger.nodes.book(found[0], shape, ids, BOUND_PART)
            nodes.append(found[0])
            devices.append(ids)
        return Deal(ask.group, ask.pods, nodes, ask.charge, devices)

    def _gang(self, ask: Ask) -> Deal | None:
        """Take a node for each pod of a gang, or change nothing."""
        board, count = self.board, len(ask.pods)
        if count >= MANY:
            self._book()
            shape = board.ledger.shapes.shapes[ask.number]
            if judge.copies(board, shape, later=False) < count:
                return None
        was = (self._row, self._used, self._left)
        mark = board.ledger.checkpoint()
        nodes: list[int] = []
        while len(nodes) < count:
            if not self._left and not self._open_node():
                board.ledger.rollback(mark)
                self._row, self._used, self._left = was
                return None
            part = min(self._left, count - len(nodes))
            nodes += [self._row] * part
            self._left -= part
            self._used += part
        return Deal(ask.group, ask.pods, nodes, ask.charge)

    def _open_node(self) -> bool:
        """Go on to the best node, for as many pods as it stays the best."""
        self._book()
        board, number = self.board, self._number
        shape = board.ledger.shapes.shapes[number]
        finder = board.all_nodes.finders.get(number)
        if finder is None:
            finder = finder_of(board, number, board.all_nodes)
        found = finder.best()
        if found is None or not found[1]:
            return False
        self._row = found[0]
        self._left = judge.repeats(board, shape, self._row)
        return True

    def _book(self) -> None:
        """Book what was taken of the node that is dealt out."""
        if self._used:
            ledger = self.board.ledger
            ledger.nodes.book_many(self._row, ledger.shapes.shapes[self._number], self._used)
        self._used = self._left = 0

    # -- what comes of it ----------------------------------------------------------------------

    def _commit(self) -> None:
        """Book all that was dealt, a statement for each group."""
        board, queues, deals = self.board, self.board.ledger.queues, self._deals
        for row, was in self._held.items():
            now, waits = queues.allocated[row], queues.waiting[row]
            queues.waiting[row] = (
                waits[0] - now[0] + was[0],
                waits[1] - now[1] + was[1],
                waits[2] - now[2] + was[2],
                waits[3],
            )
        deal(board.ledger, deals)
        board.commit_dealt("allocate", deals)
        board.counts.groups_tried += len(deals)
        self._deals, self._held = [], {}
        self.order.settle()


def _kind_of(shape: Shape) -> Kind | None:
    """Return what a pod of a shape takes and is charged on any node; None if more matters."""
    is_rare = shape.is_rare and not shape.is_shared
    is_simple = plain.is_plain(shape) and not is_rare and not shape.vetoes
    if not is_simple or shape.pending_mib:
        return None
    return Kind(shape.asked[:3], shape.charge_milli, shape.is_shared)
