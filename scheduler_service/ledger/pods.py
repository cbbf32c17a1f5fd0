"""The pods' columns. What a pod is in the book changes by `Ledger.start`, `move` and `move_away`."""

from __future__ import annotations

from scheduler_service.ledger.groups import Leaf
from scheduler_service.model.pod import Pod

Devices = tuple[str, ...]
PodRow = tuple[int, int, Devices, int, bool]


class PodTable:
    """Pods by row; rows of pods that are gone are used again."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.keys: list[str] = []
        self.models: list[Pod] = []
        self.state: list[int] = []
        self.node: list[int] = []
        self.leaf: list[Leaf | None] = []
        """None while its group (or that sub-group) is not there."""
        self.shape: list[int] = []
        self.devices: list[Devices] = []
        """Ids of its devices on its node: shared GPUs always, whole ones where known."""
        self.charge: list[int] = []
        """Milli-GPU that its queue is charged for it now."""
        self.is_core: list[bool] = []
        """Whether it is booked as non-preemptible."""
        self.left: dict[int, tuple[int, Devices]] = {}
        """Moved pods: the place they still hold until they have left it."""
        self.free_rows: list[int] = []
        self._on: dict[int, set[int]] | None = None
        """Who is on which node, from the first question on; what is tried and taken back is not noted."""

    def on(self, node: int) -> list[int]:
        """Return the pods on a node, in order of their keys."""
        if self._on is None:
            self._on = {}
            for pod in self.row_of.values():
                self._note(pod)
        return sorted(self._on.get(node, ()), key=self.keys.__getitem__)

    def moved(self, pod: int, before: int) -> None:
        """Note that a pod is for good where its column says, and no longer where it was before."""
        if self._on is None:
            return
        if (left := self._on.get(before)) is not None:
            left.discard(pod)
            if not left:
                del self._on[before]
        self._note(pod)

    def _note(self, pod: int) -> None:
        if self._on is not None and self.node[pod] >= 0:
            self._on.setdefault(self.node[pod], set()).add(pod)

    def old(self, pod: int) -> PodRow:
        """Return what `move` may change of a pod, to be journaled before."""
        return (
            self.state[pod],
            self.node[pod],
            self.devices[pod],
            self.charge[pod],
            self.is_core[pod],
        )

    def __setitem__(self, pod: int, old: PodRow) -> None:
        """Put back what was journaled."""
        (
            self.state[pod],
            self.node[pod],
            self.devices[pod],
            self.charge[pod],
            self.is_core[pod],
        ) = old
