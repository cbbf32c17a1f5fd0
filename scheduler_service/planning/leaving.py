"""A group as its pods leave step by step, while the ledger stays as it is.

FORMAT.md, "Leaving": surplus goes first, a pod above a leaf's minimum one at a time, then a child
that is not needed, whole; then all the rest at once. Each step is one loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from scheduler_service.ledger import states
from scheduler_service.ledger.groups import Group, Leaf
from scheduler_service.ledger.store import Ledger
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.planning import tree


class Leaving:
    """What is left of a group. `without`: pods that are taken as gone from the start."""

    __slots__ = ("_left", "group")

    def __init__(self, ledger: Ledger, group: Group, without: Collection[int] = ()) -> None:
        self.group = group
        state = ledger.pods.state
        self._left: dict[str, list[int]] = {
            name: [
                pod
                for pod in tree.ordered_pods(ledger, leaf)
                if states.IS_ACTIVE[state[pod]] and pod not in without
            ]
            for name, leaf in group.leaves.items()
        }

    @property
    def pods(self) -> list[int]:
        """The pods that have not left, leaf by leaf."""
        return [pod for left in self._left.values() for pod in left]

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def progress(self) -> int:
        """Return BELOW, EXACT or ABOVE the minimum, as if those that left were gone."""
        root = self.group.model.gang
        if not tree.has_enough(self.group, root, self._having):
            return tree.BELOW
        return tree.ABOVE if self._surplus(root) else tree.EXACT

    def leave(self) -> list[int]:
        """Take out and return the pods that leave next; all that are left at last."""
        step = self._surplus(self.group.model.gang)
        gone = step or self.pods
        for name, left in self._left.items():
            self._left[name] = [pod for pod in left if pod not in gone]
        return gone

    def steps(self) -> Iterator[list[int]]:
        """Yield all steps until nothing is left."""
        while len(self):
            yield self.leave()

    def _having(self, leaf: Leaf) -> int:
        return len(self._left[leaf.spec.name]) + leaf.counts[states.SUCCEEDED]

    def _surplus(self, spec: SubGroup) -> list[int]:
        """Return what may leave below `spec` while it keeps what it needs; [] if nothing may."""
        if spec.is_leaf:
            left = self._left[spec.name]
            has_more = self._having(self.group.leaves[spec.name]) > spec.min_members
            return left[-1:] if has_more else []
        order = sorted(spec.children, key=self._place, reverse=True)
        for child in order:
            step = self._surplus(child)
            if step:
                return step
        if tree.have(self.group, spec, self._having) > tree.needed(spec):
            for child in order:
                pods = [pod for leaf in child.leaves() for pod in self._left[leaf.name]]
                if pods and tree.has_enough(self.group, child, self._having):
                    return pods
        return []

    def _place(self, spec: SubGroup) -> tuple[int, float, str]:
        have, need = tree.have(self.group, spec, self._having), tree.needed(spec)
        if have < need:
            return 0, 0, spec.name
        return (1, have / need, spec.name) if need else (2, have, spec.name)
