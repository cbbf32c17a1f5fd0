"""When a workload wants nothing any more: it ended, sleeps, or is being deleted."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_service.grouping.description import Release
from scheduler_service.grouping.objects import Object

ENDED_BY_CONDITION: Mapping[str, tuple[str, ...]] = {
    "Complete": ("True",),
    "Completed": ("True",),
    "Failed": ("True",),
}


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind says that it wants nothing: paths with dots.

    `asleep` are paths that say true, `awake` ones that say false; `conditions` name the statuses
    that end it; a `phase` among `finished` ends it, one among `sleeping` suspends it.
    """

    asleep: tuple[str, ...] = ()
    awake: tuple[str, ...] = ()
    asleep_annotation: str = ""
    conditions: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    phase: str = "status.phase"
    finished: tuple[str, ...] = ()
    sleeping: tuple[str, ...] = ()

    def release_of(self, owner: Object) -> Release | None:
        """Return why this owner lets go of everything, None while it does not."""
        if owner.is_deleted:
            return Release.DELETED
        if self._has_finished(owner):
            return Release.FINISHED
        return Release.SUSPENDED if self._sleeps(owner) else None

    def _has_finished(self, owner: Object) -> bool:
        if self.finished and owner.value(*self.phase.split(".")) in self.finished:
            return True
        return bool(self.conditions) and any(
            condition.text("status") in self.conditions.get(condition.text("type"), ())
            for condition in owner.entries("status", "conditions")
        )

    def _sleeps(self, owner: Object) -> bool:
        return (
            any(owner.value(*path.split(".")) is True for path in self.asleep)
            or any(owner.value(*path.split(".")) is False for path in self.awake)
            or bool(self.asleep_annotation and self.asleep_annotation in owner.annotations)
            or bool(self.sleeping and owner.value(*self.phase.split(".")) in self.sleeping)
        )


NO_END = Ends()
POD_ENDS = Ends(finished=("Succeeded", "Failed"))
