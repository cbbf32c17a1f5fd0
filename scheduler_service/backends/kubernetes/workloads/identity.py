"""Which pod of ours a token is of: what the API server says of a projected token, nothing that the pod says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_service.backends.kubernetes.reviews import Person
from scheduler_service.backends.kubernetes.workloads.pod import ACCOUNT

POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
_USER = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod that a token is bound to; its UID is its incarnation."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """The pod as namespace/name."""
        return f"{self.namespace}/{self.name}"


def pod_of(person: Person) -> OwnPod | None:
    """Return the pod whose token it is; None for one that is bound to none, or of another account than ours."""
    account = person.user.removeprefix(_USER)
    namespace, _, name = account.partition(":")
    if account == person.user or name != ACCOUNT:
        return None
    extra = dict(person.extra)
    pod, uid = extra.get(POD_NAME, ()), extra.get(POD_UID, ())
    return OwnPod(namespace, pod[0], uid[0]) if len(pod) == len(uid) == 1 else None
