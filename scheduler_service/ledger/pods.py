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
