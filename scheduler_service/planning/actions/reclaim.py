"""Reclaim: take back from queues that hold more than their share, or than their quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.shape import MIG
from scheduler_service.model.reasons import FairShareReached, Reason, ReclaimedBy
from scheduler_service.planning import capacity_check, reclaim_check
from scheduler_service.planning.board import Board
from scheduler_service.planning.capacity_check import NAMES
from scheduler_service.planning.making_room import MakingRoom, Why, Wish
from scheduler_service.planning.queue_order import Entitlement
from scheduler_service.planning.reclaim_check import Book, Holding, Loss, Request
from scheduler_service.planning.scenario import Verdict
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Step, held, reclaim_min_runtime


def run(board: Board) -> None:
    """Serve each waiting group whose queue stays within its fair share."""
    room = MakingRoom(board, "reclaim", blames=lambda wish: _above_share(board, wish))
    for wish in room.wishes(lambda _: True):
        refused = _not_entitled(board, wish)
        if refused is not None:
            board.say("reclaim", wish.group, refused)
            continue
        book = _book(board)
        stacks = _losers(room, wish, book)
        if room.win(wish, stacks, _verdict(board, wish, book), _why(board, wish)):
            room.follow(
                wish, stacks, partial(_may_take, room, wish), lambda other: _why(board, other)
            )


def _may_take(room: MakingRoom, wish: Wish, step: Step) -> bool:
    """Say whether a wish like this may take this at this moment, from this queue alone."""
    board = room.board
    if _not_entitled(board, wish) is not None:
        return False
    book = _book(board)
    givers = [leaf for leaf, stack in _losers(room, wish, book).items() if stack]
    return givers == [step.group.queue] and _verdict(board, wish, book)(wish.chunk, [step])


def _holding(board: Board, row: int) -> Holding:
    """Return what a queue may count on and what it holds at this moment."""
    queues = board.ledger.queues
    given = Entitlement(queues.quota[row], queues.limit[row], board.fair_share[row])
    return Holding(given, queues.allocated[row])


def _not_entitled(board: Board, wish: Wish) -> Reason | None:
    """Return why the group may not reclaim at all: its leaf queue would exceed its share."""
    queues, row = board.ledger.queues, wish.group.queue
    share, held = board.fair_share[row], queues.allocated[row]
    for index, asked in enumerate(wish.asked):
        if held[index] + asked > share[index]:
            name = queues.models[row].name
            return FairShareReached(name, NAMES[index], share[index], held[index], asked)
    if not capacity_check.must_fit_quota(wish.group):
        return None
    return capacity_check.over_quota(board, wish.group, wish.asked)


def _above_share(board: Board, wish: Wish) -> Iterator[Reason]:
    """Yield the queues above the group's own that the wish would lift above their shares.

    That alone does not refuse it: siblings below such a queue may still give. A queue without
    siblings says only that the cluster is full.
    """
    queues = board.ledger.queues
    beside = Counter(queue.parent for queue in queues.models)
    for row in queues.paths[wish.group.queue][1:]:
        if beside[queues.models[row].parent] == 1:
            continue
        share, held = board.fair_share[row], queues.allocated[row]
        for index, asked in enumerate(wish.asked):
            if asked and held[index] + asked > share[index]:
                name = queues.models[row].name
                yield FairShareReached(name, NAMES[index], share[index], held[index], asked)
                break


def _book(board: Board) -> Book:
    """Return what all queues hold before anything is taken."""
    queues = board.ledger.queues
    names = [queue.name for queue in queues.models]
    return Book(
        holdings={name: _holding(board, row) for row, name in enumerate(names)},
        parent={queue.name: queue.parent for queue in queues.models},
        non_preemptible=dict(zip(names, queues.non_preemptible, strict=True)),
    )


def _losers(room: MakingRoom, wish: Wish, book: Book) -> dict[int, Sequence[Entry]]:
    """Return the groups of other queues that could give in some plan."""
    board, queues = room.board, room.board.ledger.queues
    mine = wish.group.queue
    found: dict[int, Sequence[Entry]] = {}
    for leaf in room.pool.stacks:
        stack = room.pool.stack(leaf)
        if leaf == mine or not stack:
            continue
        reclaimer, victim = book.pair(queues.models[mine].name, queues.models[leaf].name)
        if not reclaim_check.is_asked(book.holdings[reclaimer], book.holdings[victim], wish.asked):
            continue
        found[leaf] = room.pool.guarded(
            stack, lambda group: reclaim_min_runtime(board, mine, group)
        )
    return found


def _verdict(board: Board, wish: Wish, book: Book) -> Verdict:
    queues = board.ledger.queues
    own = queues.models[wish.group.queue].name
    is_preemptible = not capacity_check.must_fit_quota(wish.group)

    def is_fair(part: Chunk, lost: Sequence[Step]) -> bool:
        asked = wish.asked
        if part is not wish.chunk:
            asked = board.sizes.careful(board.asked_by(part))
        losses = [_loss(board, list(run)) for _, run in groupby(lost, key=_queue_of)]
        return reclaim_check.is_fair(book, Request(own, asked, is_preemptible), losses)

    return is_fair


def _queue_of(step: Step) -> int:
    return step.group.queue


def _loss(board: Board, steps: Sequence[Step]) -> Loss:
    """Return steps of one queue as a loss, the last one in full, those before it as a sum.

    MIG slices do not make GPUs a resource that is looked at.
    """
    ledger = board.ledger
    name = ledger.queues.models[steps[0].group.queue].name
    amounts, earlier = steps[-1].held(ledger), held(ledger, steps[:-1])
    shapes = ledger.shapes.shapes
    if not any(shape.kind == MIG for shape in shapes):
        return Loss(name, amounts, earlier=earlier)
    others = [step.only(lambda pod: ledger.shape_of(pod).kind != MIG) for step in steps]
    cpu, memory = amounts[0] + earlier[0], amounts[1] + earlier[1]
    return Loss(name, amounts, (cpu, memory, held(ledger, others)[2]), earlier)


def _why(board: Board, wish: Wish) -> Why:
    models = board.ledger.queues.models
    known: dict[int, Reason] = {}

    def why(victim: Group) -> Reason:
        reason = known.get(victim.queue)
        if reason is None:
            own = models[wish.group.queue].name
            reason = known[victim.queue] = ReclaimedBy(wish.key, own, models[victim.queue].name)
        return reason

    return why
