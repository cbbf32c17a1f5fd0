"""The least that somebody who waits has to find free: below it a plan is known to start nothing."""

from collections import Counter
from dataclasses import dataclass, field

from scheduler_service.model.gpu import WholeGpus
from scheduler_service.model.pod import Pod
from scheduler_service.model.pod_group import PodGroup


def least_asked(group: PodGroup, pods: tuple[Pod, ...]) -> int:
    """Return the whole GPUs without which a group can not start; 0 where that is not plain."""
    if group.min_members != len(pods):
        return 0
    return whole_gpus(pods)


def whole_gpus(pods: tuple[Pod, ...]) -> int:
    """Return the whole GPUs that pods ask for together."""
    return sum(pod.request.gpu.count for pod in pods if isinstance(pod.request.gpu, WholeGpus))


@dataclass(slots=True)
class Asks:
    """Who waits, and for how much."""

    _waiting: dict[str, int] = field(default_factory=dict)
    """By group: what it asks for at least."""
    _amounts: Counter[int] = field(default_factory=Counter)

    def add(self, key: str, least: int) -> None:
        """Note that a group waits for at least so much; again: that it is so much now."""
        self.drop(key)
        self._waiting[key] = least
        self._amounts[least] += 1

    def drop(self, key: str) -> None:
        """Note that a group does not wait any more."""
        least = self._waiting.pop(key, None)
        if least is not None:
            self._amounts[least] -= 1
            if not self._amounts[least]:
                del self._amounts[least]

    def exceed(self, free: int) -> bool:
        """Say whether everybody who waits needs more GPUs than are free."""
        return all(least > free for least in self._amounts)
