"""What a kind of workload decides about its group, and what it may look at to decide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Kind, Object
from scheduler_service.grouping.owners import NotRead, Reference, Unread
from scheduler_service.grouping.settings import GroupingSettings
from scheduler_service.grouping.surroundings import Surroundings
from scheduler_service.model.pod_group import SubGroup
from scheduler_service.model.topology import TopologyConstraint

MOST_SUB_GROUPS = 10_000
_LONGEST_NAME = 253
_LONGEST_LABEL = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")


class Workload(msgspec.Struct, frozen=True):
    """A pod and its owners, the top one first; a pod of its own has none."""

    pod: Object
    owners: tuple[Object, ...]
    settings: GroupingSettings
    around: Surroundings

    @property
    def top(self) -> Object:
        """The top owner; for a pod of its own, the pod."""
        return self.owners[0] if self.owners else self.pod

    def owner(self, kind: Kind) -> Object | None:
        """Return the owner of a kind, if one stands in the chain."""
        return next((each for each in self.owners if each.kind == kind), None)

    def read(self, reference: Reference) -> Object | None:
        """Return another object, None where it is absent or may not be read."""
        answer = self.around.read(reference)
        if answer is Unread.NOT_YET:
            raise NotRead(reference)
        if isinstance(answer, Unread):
            return None
        return Object({"apiVersion": reference.api_version, "kind": reference.kind, **answer})


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A kind's decision; all else follows the same rules for every kind.

    `children` = () is a group without sub-groups. `asked_by` are the objects whose labels count,
    first one first. `priority_class` overrules labels, `queue` and `fallback_priority_class` stand
    back behind them.
    """

    name: str
    owner: Object
    asked_by: tuple[Object, ...]
    min_members: int = 1
    children: tuple[SubGroup, ...] = ()
    min_subgroups: int | None = None
    leaf: str = ""
    priority_class: str = ""
    fallback_priority_class: str = ""
    queue: str = ""
    topology: TopologyConstraint | None = None


ShapeOf = Callable[[Workload], Shape]


def group_name(owner: Object, *suffixes: str) -> str:
    """Return the group's name: pg-<owner>-<uid>; an owner's long name is cut, its uid never.

    What our API made keeps the name that its person was told.
    """
    if not suffixes and _is_request(owner):
        return owner.name
    end = "-".join([owner.uid, *suffixes])
    room = _LONGEST_NAME - len(end) - len("pg--")
    return f"pg-{owner.name[:room].rstrip('-.')}-{end}"


def _is_request(owner: Object) -> bool:
    """Whether our API made it. The label alone is no proof: it would lead into somebody else's group."""
    return bool(owner.annotations.get(keys.OWNER)) and owner.labels.get(keys.REQUEST) == owner.name


def one_group(work: Workload) -> Shape:
    """Return one group for all pods of the top owner, each of them free to run alone."""
    return Shape(name=group_name(work.top), owner=work.top, asked_by=work.owners or (work.pod,))


def group_a_pod(work: Workload) -> Shape:
    """Return a group for this pod alone."""
    return Shape(name=group_name(work.pod), owner=work.pod, asked_by=work.owners or (work.pod,))


def gang(work: Workload, *, minimum: int) -> Shape:
    """Return one group for all pods of the top owner that starts with a minimum of them."""
    return msgspec.structs.replace(one_group(work), min_members=minimum)


def with_children(
    shape: Shape, children: tuple[SubGroup, ...], *, leaf: str, min_subgroups: int | None = None
) -> Shape:
    """Return the shape with sub-groups, named so that labels may carry their names.

    Too many of them, two of one name, and a pod that is in none of them are refused.
    """
    renamed = tuple(_renamed(child, shape.owner) for child in children)
    names = [each.name for child in renamed for each in _all(child)]
    check_count(shape.owner, len(names))
    if twice := sorted({name for name, count in Counter(names).items() if count > 1}):
        raise shape.owner.refusal(
            f"Two of its sub-groups are called {twice[0]}.", hint="Give each a name of its own."
        )
    leaf = _label_name(leaf, shape.owner) if leaf else ""
    if not any(each.name == leaf for child in renamed for each in child.leaves()):
        raise shape.owner.refusal(
            f"It has no sub-group {leaf!r} for this pod.",
            hint="If it was scaled down, the pod will go; else look at its operator's log.",
        )
    return msgspec.structs.replace(shape, children=renamed, leaf=leaf, min_subgroups=min_subgroups)


def check_count(owner: Object, sub_groups: int) -> None:
    """Refuse more sub-groups than any workload needs, before they are made."""
    if sub_groups > MOST_SUB_GROUPS:
        raise owner.refusal(
            f"It asks for {sub_groups} sub-groups, more than {MOST_SUB_GROUPS}.",
            hint="Make the segments larger or the workload smaller.",
        )


def _all(tree: SubGroup) -> Iterator[SubGroup]:
    yield tree
    for child in tree.children:
        yield from _all(child)


def _renamed(tree: SubGroup, owner: Object) -> SubGroup:
    children = tuple(_renamed(child, owner) for child in tree.children)
    return msgspec.structs.replace(tree, name=_label_name(tree.name, owner), children=children)


def _label_name(name: str, owner: Object) -> str:
    """Return the name in small letters, digits and dashes, as KAI's sub-groups are named."""
    plain = _NOT_IN_LABELS.sub("-", name.lower()).strip("-")
    if not plain or len(plain) > _LONGEST_LABEL:
        raise owner.refusal(
            f"Its part {name!r} can not name a sub-group.",
            hint=f"Use 1 to {_LONGEST_LABEL} letters, digits and dashes.",
        )
    return plain


def template_topology(template: Object) -> TopologyConstraint | None:
    """Return what a template's annotations ask of topology: a name and at least one level."""
    notes = template.annotations
    required, preferred = notes.get(keys.TOPOLOGY_REQUIRED), notes.get(keys.TOPOLOGY_PREFERRED)
    name = notes.get(keys.TOPOLOGY)
    if not name or not (required or preferred):
        return None
    return TopologyConstraint(name, required or None, preferred or None)


def segment_topology(pod: Object, template: Object, owner: Object) -> TopologyConstraint | None:
    """Return what pod, template or (for the name) owner ask for each segment."""

    def asked(key: str) -> str:
        return pod.annotations.get(key) or template.annotations.get(key) or ""

    required, preferred = asked(keys.SEGMENT_REQUIRED), asked(keys.SEGMENT_PREFERRED)
    name = asked(keys.TOPOLOGY) or owner.annotations.get(keys.TOPOLOGY, "")
    if not name or not (required or preferred):
        return None
    return TopologyConstraint(name, required or None, preferred or None)
