"""A group's tree, as FORMAT.md tells it: who has enough, who is next, what starts, in what order."""

from collections import Counter
from fractions import Fraction

from scheduler_service.model.pod import COUNTS_FOR_QUEUE, Pod, PodState
from scheduler_service.model.pod_group import PodGroup, SubGroup

COUNTS = COUNTS_FOR_QUEUE | {PodState.SUCCEEDED}
NOT_THERE = {PodState.GATED, PodState.RELEASING, PodState.FAILED}


def in_order(pods: list[Pod]) -> list[Pod]:
    """Pods with a precedence first, the higher the earlier; then by name."""
    return sorted(pods, key=lambda p: (p.precedence is None, -(p.precedence or 0), p.name))


class Tree:
    """One group with its pods, each with the state it has at this moment."""

    def __init__(self, group: PodGroup, pods: list[tuple[Pod, PodState]]) -> None:
        self.root = group.gang
        self.have = Counter(pod.sub_group for pod, state in pods if state in COUNTS)
        self.there = Counter(pod.sub_group for pod, state in pods if state not in NOT_THERE)
        self.active = Counter(pod.sub_group for pod, state in pods if state in COUNTS_FOR_QUEUE)
        self.pending = {
            leaf.name: in_order(
                [p for p, state in pods if state is PodState.PENDING and p.sub_group == leaf.name]
            )
            for leaf in self.root.leaves()
        }
        self.could_have = self.have + Counter({k: len(v) for k, v in self.pending.items()})

    def is_ready(self) -> bool:
        """Whether anything of the group may start."""
        return has_enough(self.root, self.there)

    def state(self) -> str:
        """Return below, exact or above."""
        if not has_enough(self.root, self.have):
            return "below"
        return "above" if self.has_surplus(self.root) else "exact"

    def has_surplus(self, part: SubGroup) -> bool:
        """Whether something below could leave without this part falling short."""
        if part.is_leaf:
            return self.have[part.name] > part.min_members and self.active[part.name] > 0
        if any(self.has_surplus(child) for child in part.children):
            return True
        enough = [child for child in part.children if has_enough(child, self.have)]
        can_go = [c for c in enough if any(self.active[leaf.name] for leaf in c.leaves())]
        return len(enough) > needed(part) and bool(can_go)

    def children_in_order(self, part: SubGroup) -> list[SubGroup]:
        """Short ones first (complete before incomplete), then the least filled, minimum 0 last."""
        return sorted(part.children, key=self._rank)

    def _rank(self, child: SubGroup) -> tuple[int, int, Fraction, str]:
        if not has_enough(child, self.have):
            return 0, 0 if has_enough(child, self.could_have) else 1, Fraction(0), child.name
        need, have = needed(child), self._held(child)
        if need == 0:
            return 2, 0, Fraction(have), child.name
        return 1, 0, Fraction(have, need), child.name

    def _held(self, part: SubGroup) -> int:
        if part.is_leaf:
            return self.have[part.name]
        return sum(has_enough(child, self.have) for child in part.children)

    def next_pods(self) -> list[Pod]:
        """Return the pods that start together next; none if nothing can."""
        if has_enough(self.root, self.have):
            return self._growth(self.root)
        return self._lacking(self.root)

    def _lacking(self, part: SubGroup) -> list[Pod]:
        """What a part that is short takes to have enough; none if it does not exist."""
        if not has_enough(part, self.could_have):
            return []
        if part.is_leaf:
            return self.pending[part.name][: part.min_members - self.have[part.name]]
        short = needed(part) - self._held(part)
        below = [c for c in self.children_in_order(part) if not has_enough(c, self.have)]
        return [pod for child in below[:short] for pod in self._lacking(child)]

    def returning(self) -> list[Pod]:
        """Return what starts of a group that can not have its minimum: what there is of it, or one."""
        return self._part_of(self.root) or self._first(self.root)

    def _part_of(self, part: SubGroup) -> list[Pod]:
        """What there is of what a part lacks."""
        if part.is_leaf:
            return self.pending[part.name][: max(0, part.min_members - self.have[part.name])]
        short = needed(part) - self._held(part)
        below = [c for c in self.children_in_order(part) if not has_enough(c, self.have)]
        return [pod for child in below[: max(0, short)] for pod in self._part_of(child)]

    def _first(self, part: SubGroup) -> list[Pod]:
        if part.is_leaf:
            return self.pending[part.name][:1]
        return next(filter(None, map(self._first, self.children_in_order(part))), [])

    def _growth(self, part: SubGroup) -> list[Pod]:
        """One step of growth of a part that has enough."""
        if part.is_leaf:
            return self.pending[part.name][:1]
        for child in self.children_in_order(part):
            grow = self._growth if has_enough(child, self.have) else self._lacking
            if step := grow(child):
                return step
        return []


def needed(part: SubGroup) -> int:
    """Return how many pods a leaf, or children an inner part, needs."""
    if part.is_leaf:
        return part.min_members
    return len(part.children) if part.min_subgroups is None else part.min_subgroups


def has_enough(part: SubGroup, count: Counter[str]) -> bool:
    """Whether a part has what it needs, counting these pods by leaf."""
    if part.is_leaf:
        return count[part.name] >= part.min_members
    return sum(has_enough(child, count) for child in part.children) >= needed(part)
