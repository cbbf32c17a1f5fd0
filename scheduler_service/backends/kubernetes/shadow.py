"""Deciding without doing: our decisions beside those of who really schedules, and where they differ."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_service.backends.kubernetes.cluster import KubernetesCluster
from scheduler_service.backends.kubernetes.decode.pods import is_bound
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.ledger import events
from scheduler_service.model.plan import Bind, Evict, Statement
from scheduler_service.ports import Accepted, Refused

log = logging.getLogger("kai.shadow")
MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    """One pod: where we would have put it ("" = we had not decided), where it went, or that we would have ended it."""

    pod: str
    ours: str
    theirs: str
    kind: str


class Shadow:
    """A backend that carries nothing out. The ledger takes each decision back at once, so it follows what is so."""

    name = "kubernetes"

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.counts: Counter[str] = Counter()
        self.differences: deque[Difference] = deque(maxlen=MOST_KEPT)
        self._cluster = cluster
        self._decided: dict[str, str] = {}
        self._undo: list[events.Event] = []
        cluster.listen("pods", self._pod_changed)

    @property
    def waiting(self) -> int:
        """How many pods we have decided on that nobody has placed yet."""
        return len(self._decided)

    async def start(self) -> None:
        """Begin to observe."""
        await self._cluster.start()

    async def stop(self) -> None:
        """Stop observing."""
        await self._cluster.stop()

    def observed(self) -> Sequence[events.Event]:
        """Return what happened; first of all, that nothing of our last plan did."""
        undo, self._undo = self._undo, []
        return [*undo, *self._cluster.observed()]

    async def wait_observed(self, timeout_s: float) -> bool:
        """Wait until something happened; False after `timeout_s`."""
        return await self._cluster.wait_observed(timeout_s)

    async def apply(self, statement: Statement, now: int) -> Accepted | Refused:
        """Remember what would have been done."""
        del now
        for operation in statement.operations:
            if isinstance(operation, Bind):
                self._decided.setdefault(operation.pod, operation.node)
            elif isinstance(operation, Evict):
                self._note(Difference(operation.pod, "evicted", operation.node, "we_would_evict"))
        self._undo.append(events.AssumedUndone(statement))
        return Accepted()

    def _pod_changed(self, old: RawPod | None, new: RawPod | None) -> None:
        if new is None:
            if old is not None:
                self._decided.pop(old.key, None)
            return
        was_there = old is not None and is_bound(old) and old.metadata.uid == new.metadata.uid
        if was_there or not is_bound(new) or not self._cluster.world.is_ours(new):
            return
        ours, theirs = self._decided.pop(new.key, ""), new.spec.node_name
        if ours == theirs:
            self.counts["same"] += 1
            return
        kind = "other_node" if ours else "only_theirs"
        self._note(Difference(new.key, ours, theirs, kind))

    def _note(self, difference: Difference) -> None:
        self.counts[difference.kind] += 1
        self.differences.append(difference)
        log.info(
            "%s: ours %s, theirs %s", difference.pod, difference.ours or "none", difference.theirs
        )
