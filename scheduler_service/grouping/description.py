"""What grouping says of one pod: the group it belongs to, or why there is none to say."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scheduler_service.grouping.objects import Kind
from scheduler_service.grouping.owners import OwnerGone, Reference
from scheduler_service.model.pod_group import Preemptibility, SubGroup


class Release(StrEnum):
    """Why a workload lets go of everything: none of its waiting pods is to be placed any more."""

    DELETED = "deleted"
    FINISHED = "finished"
    SUSPENDED = "suspended"


class GroupOwner(msgspec.Struct, frozen=True):
    """The object whose end is the group's end."""

    api_version: str
    kind: str
    name: str
    uid: str


class TopOwner(msgspec.Struct, frozen=True):
    """The highest owner that could be read, as the group's annotation tells it."""

    name: str
    uid: str
    kind: Kind
    version: str


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A pod group as its workload asks for it.

    `owner_queue`: the queue if a label of the owners names it, else "": only such a queue may move
    a group that exists. `priority_class` "" and `preemptibility` None leave it to the cluster.
    `said_by_pod`: what stands in the group only because of this pod, as fields of KAI's spec; the
    next pod may say otherwise, so the first one's word stays.
    """

    name: str
    namespace: str
    owner: GroupOwner
    top_owner: TopOwner
    queue: str
    owner_queue: str = ""
    min_members: int = 1
    gang: SubGroup
    priority_class: str = ""
    preemptibility: Preemptibility | None = None
    preemption_delay_ms: int | None = None
    stale_grace_ms: int | None = None
    said_by_pod: frozenset[str] = frozenset()
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    released: Release | None = None


class Grouped(msgspec.Struct, frozen=True):
    """A pod's group and its place there.

    `leaf` is "" in a group without sub-groups. `released`: this pod alone has lost its owner's
    will, as of a finished Job in a JobSet. `notes`: sentences about what was ignored.
    """

    group: GroupDescription
    leaf: str = ""
    released: Release | None = None
    notes: tuple[str, ...] = ()


class Untouched(StrEnum):
    """Why a pod's membership is none of our business."""

    OTHER_SCHEDULER = "other scheduler"
    SKIPPED = "skipped"
    MADE_BY_HAND = "made by hand"


class Needs(msgspec.Struct, frozen=True):
    """An object has to be read before the answer: read it, then ask again."""

    reference: Reference


class Ungroupable(msgspec.Struct, frozen=True):
    """The workload does not say how its pods belong together; `sentence` goes to its owner."""

    sentence: str


Outcome = Grouped | Untouched | Needs | OwnerGone | Ungroupable
