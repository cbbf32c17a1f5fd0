"""What reclaim, preempt and consolidate share: whom they serve, and one search for each.

A group gets at most one step in one action; what it won is a statement. Groups that look the same
as one that failed are not tried again until something changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group
from scheduler_service.ledger.queues import Amounts
from scheduler_service.model.plan import Evict, Pipeline, Statement
from scheduler_service.model.policy import Action
from scheduler_service.model.reasons import (
    MovedFor,
    NoScenario,
    NoVictims,
    PlanningFailed,
    PreemptionDelay,
    Reason,
)
from scheduler_service.planning import capacity_check, faults, tree
from scheduler_service.planning.alike import Swaps
from scheduler_service.planning.board import Board
from scheduler_service.planning.candidates import incomplete, not_ready, pending_groups
from scheduler_service.planning.depth import within_depth
from scheduler_service.planning.ordering import GroupOrder, QueuePlaces, group_key
from scheduler_service.planning.placement import Placer
from scheduler_service.planning.scenario import Budget, Search, Verdict
from scheduler_service.planning.settling import Settling
from scheduler_service.planning.tree import Chunk
from scheduler_service.planning.victims import Entry, Pool, Stacks, Step, walk

Why = Callable[[Group], Reason]
"""Why a pod of this victim group is asked to leave."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a waiting group wants room for."""

    group: Group
    chunk: Chunk
    asked: Amounts

    @property
    def key(self) -> str:
        """The group's identity."""
        return self.group.model.key


def _nothing_more(_: Wish) -> Iterable[Reason]:
    return ()


@dataclass(slots=True)
class MakingRoom:
    """One of the three actions at work."""

    board: Board
    action: Action
    places: QueuePlaces = field(init=False)
    spares: Callable[[Group], bool] | None = None
    """Groups that this action leaves alone, besides those that nobody may touch."""
    blames: Callable[[Wish], Iterable[Reason]] = _nothing_more
    """What else to say of a wish that found no room."""
    sifts: Callable[[list[Group]], list[Group]] | None = None
    """Returns whom it is worth to look at; the rest have their reasons."""
    serves_alike: Callable[[GroupOrder], int] | None = None
    """Serves many at once that are next in the order; says how many."""
    _pool: Pool | None = None
    settling: Settling = field(init=False)
    _order: GroupOrder = field(init=False)
    _released: list[Entry] = field(default_factory=list)
    """Victims of the last search that were released at once."""
    won: int = 0
    """How many wishes were granted."""
    _failed: dict[object, tuple[Reason, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = QueuePlaces(self.board)
        self.settling = Settling(self.places, promise)

    @property
    def pool(self) -> Pool:
        """All groups that may lose something; listed when somebody first wants their room."""
        if self._pool is None:
            self._pool = Pool(self.board, self.spares)
        return self._pool

    def wishes(self, accepts: Callable[[Group], bool]) -> Iterator[Wish]:
        """Yield the waiting groups in queue order, those within their preemption delay left out."""
        board = self.board
        waiting = [group for group in pending_groups(board, self.action) if accepts(group)]
        if self.sifts is not None:
            waiting = self.sifts(waiting)
        ready = [group for group in waiting if not self._is_delayed(group)]
        ready = within_depth(board, self.action, ready)
        self._order = GroupOrder(board, ready, self.places)
        while (taken := self._next()) is not None:
            group, chunk = taken
            if chunk is None:
                board.say(self.action, group, incomplete(group))
            elif self._may_still(group):
                wish = Wish(group, chunk, board.sizes.careful(board.asked_by(chunk)))
                known = self._failed.get(self._look(wish)) if self._failed else None
                if known is None:
                    yield wish
                else:
                    self._say(group, known)

    def _next(self) -> tuple[Group, Chunk | None] | None:
        """Return who is next, those left out that could be served at once."""
        if self.serves_alike is not None and not self._failed:
            self.won += self.serves_alike(self._order)
        return self._order.pop()

    def _say(self, group: Group, reasons: Iterable[Reason]) -> None:
        for reason in reasons:
            self.board.say(self.action, group, reason)

    def _may_still(self, group: Group) -> bool:
        """Say whether a group is still ready: it may have lost pods since it was listed."""
        if not tree.is_ready(group):
            self.board.say(self.action, group, not_ready(group))
            return False
        return not self._is_delayed(group)

    def _is_delayed(self, group: Group) -> bool:
        board, model = self.board, group.model
        delay = model.preemption_delay_ms
        if not delay:
            return False
        moments = [
            moment for moment in (model.made_ms, model.last_evicted_ms) if moment is not None
        ]
        if any(pod in board.evict_reasons for pod in group.pods()):
            moments.append(board.now_ms)
        left = max(moments) + delay - board.now_ms if moments else 0
        if left <= 0:
            return False
        board.say(self.action, group, PreemptionDelay(left))
        return True

    def win(self, wish: Wish, stacks: Stacks, is_allowed: Verdict, why: Why) -> bool:
        """Make room for a wish at the cost of `stacks`, or say why not."""
        board = self.board
        board.counts.groups_tried += 1
        reason = self._search_all_room(wish, stacks, is_allowed)
        if reason is not None:
            reasons = self._failed[self._look(wish)] = (reason, *self.blames(wish))
            self._say(wish.group, reasons)
            return False
        self._commit(wish, why)
        return True

    def follow(
        self,
        wish: Wish,
        stacks: Stacks,
        allows: Callable[[Step], bool],
        why_of: Callable[[Wish], Why],
    ) -> None:
        """Let groups that wait behind one that won, and are like it, swap with the next victims."""
        givers = [leaf for leaf, stack in stacks.items() if stack]
        if len(givers) != 1:
            return
        board, pods = self.board, self.board.ledger.pods
        swaps = Swaps(board, self._order, self.settling, self.pool, wish.group, wish.chunk)
        pairs = swaps.pairs(givers[0])
        pairs = pairs[: swaps.allowed(pairs, allows)]
        if not pairs:
            return
        swaps.carry_out(pairs)
        for group, winner, giving, victim in pairs:
            reason = why_of(Wish(group, wish.chunk, wish.asked))(giving)
            board.evict_reasons[victim] = reason
            node = board.ledger.nodes.name_of(pods.node[victim])
            operations = (
                Evict(pods.keys[victim], node, reason),
                Pipeline(pods.keys[winner], node),
            )
            board.statements.append(Statement(self.action, group.key, operations))
        self.won += len(pairs)
        self._failed.clear()
        self._order.refresh()

    def _search_all_room(self, wish: Wish, stacks: Stacks, is_allowed: Verdict) -> Reason | None:
        """Search, with the room that is kept for this very group; what is won, it needs no more."""
        kept = self.board.kept
        if kept is None or kept.group != wish.key:
            return self._search(wish, stacks, is_allowed)
        kept.lift()
        reason = self._search(wish, stacks, is_allowed)
        if reason is None:
            self.board.kept = None
        else:
            kept.restore()
        return reason

    def _search(self, wish: Wish, stacks: Stacks, is_allowed: Verdict) -> Reason | None:
        """Leave the board as after an allowed try and return None, or return why there is none."""
        board = self.board
        if not any(stacks.values()):
            return NoVictims(self.action)
        cap = board.policy.max_consolidation_victims if self.action == "consolidate" else None
        filled = [stack for stack in stacks.values() if stack]
        search = Search(
            board,
            self.settling,
            wish.group,
            wish.chunk,
            walk(self.places, stacks, max_groups=cap),
            is_allowed,
            Budget(board.policy.max_simulations),
            filled[0] if len(filled) == 1 and self.action == "reclaim" else (),
        )
        mark = board.checkpoint()
        try:
            is_solved = search.solve()
        except Exception as error:
            if faults.is_of_another(error, wish.group):
                raise
            board.rollback(mark)
            return PlanningFailed(type(error).__name__)
        if is_solved:
            self._released = search.released
            return None
        return NoScenario(self.action, search.walked, search.simulations)

    def _look(self, wish: Wish) -> object:
        model, shape_no = wish.group.model, self.board.ledger.pods.shape
        pods = wish.chunk.members()
        shapes = tuple(shape_no[pod] for pod in pods)
        if wish.group.topology is not None or not wish.group.is_flat:
            return wish.key
        return (
            wish.group.queue,
            model.priority,
            model.preemptibility,
            group_key(self.board, wish.group)[2],
            shapes,
        )

    def _commit(self, wish: Wish, why: Why) -> None:
        board, ledger = self.board, self.board.ledger
        pods = ledger.pods
        touched = {wish.key: wish.group}
        for pod in dict.fromkeys(board.touched):
            group = ledger.group_of(pod)
            if group is None or group is wish.group:
                continue
            touched[group.model.key] = group
            if pods.state[pod] == states.RELEASING:
                board.evict_reasons[pod] = why(group)
            elif pods.state[pod] == states.PIPELINED:
                name = ledger.nodes.name_of(pods.node[pod])
                board.evict_reasons[pod] = MovedFor(wish.key, name)
        statement = board.commit(self.action, wish.key)
        if self._released and statement is not None:
            evictions = self._evictions(why)
            operations = (*evictions, *statement.operations)
            board.statements[-1] = Statement(self.action, wish.key, operations)
        for group in touched.values():
            self._renew(group, is_victim=group is not wish.group)
        self.won += 1
        self._failed.clear()
        self._order.refresh()

    def _renew(self, group: Group, *, is_victim: bool) -> None:
        """Take over that a group was served, or asked to leave (in consolidation: only once)."""
        if self._pool is not None:
            if is_victim and self.action != "consolidate":
                self._pool.renew(group)
            else:
                self._pool.forget(group)
        self.settling.forget(group)

    def _evictions(self, why: Why) -> list[Evict]:
        """Return the evictions of those released at once; they are no victims any more."""
        pods, nodes = self.board.ledger.pods, self.board.ledger.nodes
        keys, node_of = pods.keys, pods.node
        names = [node.name if node else "" for node in nodes.models]
        leaving = [entry.pod for entry in self._released]
        reason = why(self._released[0].group)  # all are of one queue, and reclaim names no more
        self.board.evict_reasons.update(dict.fromkeys(leaving, reason))
        self.pool.drop_all(self._released)
        self._released = []
        return [Evict(keys[pod], names[node_of[pod]], reason) for pod in leaving]


def promise(board: Board, group: Group, chunk: Chunk) -> bool:
    """Promise a chunk places, all of it or nothing, within limits and quotas."""
    if capacity_check.chunk_exceeds(board, group, chunk) is not None:
        return False
    mark = board.checkpoint()
    if Placer(board, group, board.all_nodes, simulated=True).place(chunk):
        return True
    board.rollback(mark)
    return False
