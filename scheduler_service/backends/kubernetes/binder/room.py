"""What is taken of each node, to judge once more before a bind whether a pod still fits. Pure.

Others bind too: a pod of another scheduler may have come between the decision and its binding. The kubelet would
refuse ours then, and a refused pod is lost; so it is refused here, and decided anew.
"""

from __future__ import annotations

from scheduler_service.backends.kubernetes.binder.failures import BindFailed
from scheduler_service.backends.kubernetes.binder.pods import Amounts, PodView
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.registry import NodeView


class Room:
    """Sums of what the pods on each node ask."""

    def __init__(self) -> None:
        self._taken: dict[str, list[int]] = {}
        self._begun: dict[str, tuple[str, Amounts]] = {}
        """Binds in progress: they count until the pod is seen on its node, or the bind is given up."""

    def saw(self, old: PodView | None, new: PodView | None) -> None:
        """Take note of a pod that is new, changed, or gone."""
        if old is not None and (new is None or new.node):
            self.give_up(old.key)
        before, after = _counted(old), _counted(new)
        if before is not None and after is not None and before == after:
            return
        for counted, sign in ((before, -1), (after, 1)):
            if counted is not None:
                self._add(*counted, sign)

    def _add(self, node: str, asks: Amounts, sign: int) -> None:
        taken = self._taken.setdefault(node, [0, 0, 0, 0])
        for place, amount in enumerate((asks.cpu_milli, asks.memory, asks.gpus, 1)):
            taken[place] += sign * amount

    def give_up(self, pod: str) -> None:
        """Forget a bind that did not come about, or is seen on its node."""
        begun = self._begun.pop(pod, None)
        if begun is not None:
            self._add(*begun, -1)

    def taken(self, node: str) -> Amounts:
        """Return what is taken of a node."""
        return Amounts(*self._taken.get(node, (0, 0, 0, 0)))

    def begin(self, request: Request, pod: PodView | None, node: NodeView) -> None:
        """Count the pod on the node from now on; raise `BindFailed` if it no longer fits there."""
        self.give_up(request.pod)
        if pod is None or pod.node:
            return
        taken, asks, has = self.taken(node.name), pod.asks, node.has
        for word, used, wanted, room in (
            ("CPU (milli)", taken.cpu_milli, asks.cpu_milli, has.cpu_milli),
            ("bytes of memory", taken.memory, asks.memory, has.memory),
            ("GPUs", taken.gpus, asks.gpus, has.gpus),
            ("pods", taken.pods, 1, has.pods),
        ):
            if wanted and used + wanted > room:
                raise BindFailed(
                    f"Node {node.name} has no room any more for {request.pod}.",
                    why=f"It has {room} {word}, {used} are taken meanwhile, and {wanted} more were needed.",
                )
        self._begun[pod.key] = (node.name, asks)
        self._add(node.name, asks, 1)


def _counted(pod: PodView | None) -> tuple[str, Amounts] | None:
    if pod is None or not pod.node or not pod.is_live:
        return None
    return pod.node, pod.asks
