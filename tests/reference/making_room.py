"""The actions that make room: kai-core section 5 with the points of FORMAT.md, step by step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET

from scheduler_service.model.gpu import Mig
from scheduler_service.model.pod import COUNTS_FOR_QUEUE, HOLDS_RESOURCES, Pod, PodState
from scheduler_service.model.pod_group import Preemptibility
from tests.reference.allocate import Place
from tests.reference.gang import has_enough
from tests.reference.reclaiming import (
    could_give,
    may_ask,
    may_take,
    quotas,
    safe_from_others,
    safe_from_own,
)
from tests.reference.search import Job, Search, Validator
from tests.reference.shares import ZERO, Amount, Books, plus, within
from tests.reference.victims import Stack, Step


class MakingRoom(Search):
    """Adds consolidate, reclaim, preempt and evict_stale_gangs."""

    actions: tuple[str, ...] = ()
    """The actions of the cycle that is run."""

    # -- the actions -----------------------------------------------------------------------------

    def run(self, actions: Iterable[str]) -> Mapping[str, Place]:
        """Run these actions in turn; returns every pod's place after them."""
        self.actions = tuple(actions)
        for action in self.actions:
            self.promised, self.moves_only = set(), action == "consolidate"
            getattr(self, action)()
            self.touched |= {
                pod.group
                for pod in self.snapshot.pods
                if self.places[pod.key].state is PodState.BOUND and pod.state is not PodState.BOUND
            }
        return self.places

    def _in_turn(self, may_try: Callable[[str], bool]) -> Iterator[str]:
        """Yield the groups that wait in the order in which they are served, each once."""
        waiting = {
            key
            for key, group in self.groups.items()
            if group.queue in self.leaves
            and self._has_pending(key)
            and self.tree(key).is_ready()
            and not self._has_to_wait(key)
            and may_try(key)
        }
        while waiting:
            key = self.next_group(waiting)
            waiting.discard(key)
            if self.next_pods(key):
                yield key

    def _has_to_wait(self, key: str) -> bool:
        group = self.groups[key]
        since = max(group.made_ms or 0, group.last_evicted_ms or 0)
        return self.snapshot.now_ms < since + (group.preemption_delay_ms or 0)

    def _may_give(self, key: str) -> bool:
        group = self.groups[key]
        return (
            group.preemptibility is not Preemptibility.NON_PREEMPTIBLE
            and group.queue in self.leaves
            and key not in self.touched | self.promised
            and any(self.places[p.key].state in COUNTS_FOR_QUEUE for p in self.members[key])
        )

    def _is_safe(self, key: str, for_ms: int) -> bool:
        started = self.groups[key].started_ms
        return started is not None and self.snapshot.now_ms < started + for_ms

    def _half_firm(self) -> set[str]:
        """Return the groups that may lose their surplus only, whoever asks (appendix G)."""
        half = Preemptibility.SEMI_PREEMPTIBLE
        return {key for key, group in self.groups.items() if group.preemptibility is half}

    def _may_not_lose(self, key: str) -> bool:
        return self.groups[key].preemptibility is Preemptibility.NON_PREEMPTIBLE

    def preempt(self) -> None:
        """Within a queue, the higher priority takes from the lower."""
        for key in self._in_turn(lambda _: True):
            group, books = self.groups[key], self.books()
            asked = self._asked_by(self.next_pods(key), self.largest)
            if self.is_firm(key) and any(
                asked[i] > 0 and q is not None and books.firm[queue.name][i] + asked[i] > q
                for queue in books.path(group.queue)
                for i, q in enumerate(quotas(queue))
            ):
                continue
            victims = {
                k for k, g in self.groups.items()
                if self._may_give(k) and g.queue == group.queue and g.priority < group.priority
            }  # fmt: skip
            safe = {k for k in victims if self._is_safe(k, safe_from_own(books, self.groups[k]))}
            safe |= self._half_firm()
            self.make_room(
                key, lambda v=victims, s=safe: Stack(self, v, s), lambda _: lambda _: True
            )

    def _asked_by(self, pods: Iterable[Pod], device_mib: int | None) -> Amount:
        amount = ZERO
        for pod in pods:
            amount = plus(amount, self.asked(pod, device_mib))
        return amount

    def _held_by(self, pods: Iterable[Pod]) -> Amount:
        amount = ZERO
        for pod in pods:
            amount = plus(amount, self.held(pod))
        return amount

    def reclaim(self) -> None:
        """A queue below its share takes from queues above theirs."""
        for key in self._in_turn(lambda _: True):
            own, books, firm = self.groups[key].queue, self.books(), self.is_firm(key)
            asked = self._asked_by(self.next_pods(key), self.smallest)
            if not may_ask(books, own, asked, firm=firm):
                continue
            victims = {
                k for k, g in self.groups.items()
                if self._may_give(k) and g.queue != own and could_give(books, own, g.queue, asked)
            }  # fmt: skip
            safe = {
                k for k in victims if self._is_safe(k, safe_from_others(books, own, self.groups[k]))
            } | self._half_firm()
            self.make_room(
                key,
                lambda v=victims, s=safe: Stack(self, v, s),
                lambda job, b=books, f=firm: self._reclaims_by(job, b, firm=f),
            )

    def _reclaims_by(self, job: Job, books: Books, *, firm: bool) -> Validator:
        asked = self._asked_by(job.part, self.smallest)
        own = self.groups[job.key].queue

        def is_allowed(steps: Sequence[Step]) -> bool:
            losses = []
            for step in steps:
                gone = [p for p in step.pods if self.places[p.key].state is PodState.RELEASING]
                if gone:
                    plain = [p for p in gone if not isinstance(p.request.gpu, Mig)]
                    lost, but_mig = self._held_by(gone), self._held_by(plain)
                    but_mig = (lost[0], lost[1], but_mig[2])
                    losses.append((self.groups[step.group].queue, lost, but_mig))
            return may_take(books, own, asked, losses, firm=firm)

        return is_allowed

    def consolidate(self) -> None:
        """Move others closer together so that a group fits; nobody loses anything.

        Whom this very cycle stops as stale is not moved before (ours; the texts do not say). That
        there is too little GPU in all is no rule here: then no what-if finds room.
        """
        cap = self.policy.max_consolidation_victims
        stopped = {k for k in self.groups if "evict_stale_gangs" in self.actions and self._ends(k)}
        for key in self._in_turn(lambda k: not self._may_not_lose(k)):
            if cap == 0:
                return
            asked = self._asked_by(self.next_pods(key), self.smallest)
            books, own = self.books(), self.groups[key].queue
            victims = {k for k in self.groups if self._may_give(k) and k != key} - stopped
            if not within(plus(books.allocated[own], asked), books.fair[own]):
                victims = {k for k in victims if self._is_asked_to_move(books, own, k)}
            if cap is not None:
                victims = self._worst_of(victims, cap)
            self.make_room(
                key,
                lambda v=victims: Stack(self, v, self._half_firm()),
                lambda _: self._all_have_places,
            )

    def _is_asked_to_move(self, books: Books, own: str, key: str) -> bool:
        queue = self.groups[key].queue
        return queue == own or not within(books.allocated[queue], books.fair[queue])

    def _worst_of(self, victims: set[str], cap: int) -> set[str]:
        stack, found = Stack(self, victims, self._half_firm()), dict[str, None]()
        while len(found) < cap and (step := stack.pop()) is not None:
            found[step.group] = None
        return set(found)

    def _all_have_places(self, steps: Sequence[Step]) -> bool:
        return all(
            self.places[pod.key].state is not PodState.RELEASING
            for step in steps
            for pod in step.pods
        )

    def evict_stale_gangs(self) -> None:
        """Let go what has been below its minimum for too long."""
        for key in filter(self._ends, self.groups):
            for pod in self.members[key]:
                place = self.places[pod.key]
                if place.state in COUNTS_FOR_QUEUE:
                    old = self.was.setdefault(pod.key, place)  # who was moved leaves where it runs
                    self.places[pod.key] = Place(PodState.RELEASING, old.node, old.devices)

    def _ends(self, key: str) -> bool:
        """Say whether a group has been below its minimum for too long, and none of it ended well."""
        pods = [(pod, self.places[pod.key].state) for pod in self.members[key]]
        if any(state is PodState.SUCCEEDED for _, state in pods):
            return False
        alive = [pod.sub_group for pod, state in pods if state in HOLDS_RESOURCES]
        return bool(alive) and self._is_late(key) and not self._has_enough(key, alive)

    def _is_late(self, key: str) -> bool:
        """Say whether a group that is below its minimum has been so for as long as is borne."""
        group, now = self.groups[key], self.snapshot.now_ms
        own = group.stale_grace_ms
        grace = self.policy.stale_gang_grace_ms if own is UNSET else own
        since = now if group.stale_since_ms is None else group.stale_since_ms
        return grace is not None and now - since >= grace

    def _has_enough(self, key: str, sub_groups: list[str]) -> bool:
        return has_enough(self.groups[key].gang, Counter(sub_groups))
