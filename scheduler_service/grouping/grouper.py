"""The question of this package: to which group does this pod belong?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec

from scheduler_service.grouping import keys
from scheduler_service.grouping.asked import Asked, asked
from scheduler_service.grouping.description import (
    GroupDescription,
    Grouped,
    GroupOwner,
    Needs,
    Outcome,
    Release,
    TopOwner,
    Ungroupable,
    Untouched,
)
from scheduler_service.grouping.kinds.volcano import POD_GROUP as VOLCANO_GROUP
from scheduler_service.grouping.kinds.volcano import below_followed_group
from scheduler_service.grouping.objects import CannotGroup, Object, Raw
from scheduler_service.grouping.own_rules import NO_RULES, OwnRules
from scheduler_service.grouping.owners import NotRead, OwnerGone, owners_of
from scheduler_service.grouping.settings import GroupingSettings
from scheduler_service.grouping.shape import Shape, Workload
from scheduler_service.grouping.surroundings import Surroundings
from scheduler_service.grouping.table import TABLE, UNKNOWN, Row
from scheduler_service.model.pod_group import SubGroup, flat_gang

_DEFAULT_SETTINGS = GroupingSettings()
_PLAIN = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)
_NOT_TEXTS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def group_pod(
    pod: Raw,
    around: Surroundings,
    *,
    settings: GroupingSettings = _DEFAULT_SETTINGS,
    rules: OwnRules = NO_RULES,
) -> Outcome:
    """Return the group of a pod, or why there is none to say.

    `Needs` names what must be read first: read it and ask again. Costs one read for each owner.
    """
    try:
        return _group(Object(pod), around, settings, rules)
    except NotRead as unread:
        return Needs(unread.reference)
    except CannotGroup as refusal:
        return Ungroupable(str(refusal))


def _group(
    pod: Object, around: Surroundings, settings: GroupingSettings, rules: OwnRules
) -> Outcome:
    if (untouched := _untouched(pod, settings)) is not None:
        return untouched
    if pod.annotations.get(keys.POD_GROUP) and not pod.entries("metadata", "ownerReferences"):
        return _remembered(pod, around, settings)
    owners = owners_of(pod, around.read)
    if isinstance(owners, OwnerGone):
        return owners
    if any(_is_skipped(owner) for owner in owners):
        return Untouched.SKIPPED
    whole = Workload(pod, owners, settings, around)
    work, row = _below_grouping(whole, rules)
    return _described(whole, work, row, rules)


def _untouched(pod: Object, settings: GroupingSettings) -> Untouched | None:
    if pod.text("spec", "schedulerName") not in settings.scheduler_names:
        return Untouched.OTHER_SCHEDULER
    return Untouched.SKIPPED if _is_skipped(pod) else None


def _is_skipped(thing: Object) -> bool:
    return thing.annotations.get(keys.SKIP) == "true"


def _remembered(pod: Object, around: Surroundings, settings: GroupingSettings) -> Outcome:
    """Answer for an owner-less pod that says its group: ours, if we named it so; else made by hand."""
    whole = Workload(pod, (), settings, around)
    work, row = _below_grouping(whole, NO_RULES)
    if pod.annotations[keys.POD_GROUP] != row.shape(work).name:
        return Untouched.MADE_BY_HAND
    return _described(whole, work, row, NO_RULES)


def _row_of(thing: Object, rules: OwnRules) -> Row:
    return TABLE.get(thing.kind) or rules.rows.get(thing.kind) or UNKNOWN


def _below_grouping(work: Workload, rules: OwnRules) -> tuple[Workload, Row]:
    """Return the work below the object that decides the grouping, and that object's row."""
    work, row = _without_skipped(work, rules)
    followed = below_followed_group(work) if row.follows else None
    return (work, row) if followed is None else (followed, TABLE[VOLCANO_GROUP])


def _without_skipped(work: Workload, rules: OwnRules) -> tuple[Workload, Row]:
    """Return the work below owners that leave grouping to what they own, and the row for it.

    What they say in labels and annotations, and what the cluster's owner set for their kind, goes
    down to the next one, or to the pod.
    """
    row = _row_of(work.top, rules)
    while row.skips:
        skipped, rest = work.owners[0], work.owners[1:]
        below = rest[0] if rest else work.pod
        below = below.inheriting(_handed_down(skipped, work.settings), skipped.annotations)
        pod, owners = (work.pod, (below, *rest[1:])) if rest else (below, ())
        work = msgspec.structs.replace(work, pod=pod, owners=owners)
        row = _row_of(work.top, rules)
    return work, row


def _handed_down(skipped: Object, settings: GroupingSettings) -> Mapping[str, str]:
    defaults = settings.defaults_of(skipped.kind)
    found: dict[str, str] = {}
    if defaults.priority_class:
        found[keys.PRIORITY_CLASS] = defaults.priority_class
    if defaults.preemptibility:
        found[keys.PREEMPTIBILITY] = defaults.preemptibility.value
    return {**found, **skipped.labels}


def _described(whole: Workload, work: Workload, row: Row, rules: OwnRules) -> Grouped:
    shape = row.shape(work)
    answers = asked(work, shape, priority_class=row.priority_class)
    group_release, pod_release = _releases(whole, shape, rules)
    group = GroupDescription(
        name=shape.name,
        namespace=work.pod.namespace,
        owner=_group_owner(shape.owner),
        top_owner=_top_owner(work.top),
        queue=answers.queue,
        owner_queue=answers.owner_queue,
        min_members=shape.min_members,
        gang=_tree(shape, answers),
        priority_class=answers.priority_class,
        preemptibility=answers.preemptibility,
        preemption_delay_ms=answers.preemption_delay_ms,
        stale_grace_ms=answers.stale_grace_ms,
        said_by_pod=answers.said_by_pod,
        labels=_labels(work, shape),
        annotations=_annotations(work, shape),
        released=group_release,
    )
    return Grouped(group, shape.leaf, pod_release, answers.notes)


def _tree(shape: Shape, answers: Asked) -> SubGroup:
    if not shape.children:
        return flat_gang(shape.min_members, answers.topology)
    return SubGroup(
        min_subgroups=shape.min_subgroups, topology=answers.topology, children=shape.children
    )


def _releases(
    work: Workload, shape: Shape, rules: OwnRules
) -> tuple[Release | None, Release | None]:
    """Return why the group, and why this pod alone, is let go of.

    What ends at or above the group's owner ends the group; a Job that ended inside a JobSet ends
    the wish for its own pods only.
    """
    chain = [*work.owners, work.pod]
    uids = [each.uid for each in chain]
    last = uids.index(shape.owner.uid) if shape.owner.uid in uids else len(work.owners) - 1
    group = next((r for each in chain[: last + 1] if (r := _release(each, rules))), None)
    below = next((r for each in chain[last + 1 :] if (r := _release(each, rules))), None)
    return group or _release(shape.owner, rules), below


def _release(thing: Object, rules: OwnRules) -> Release | None:
    return _row_of(thing, rules).ends.release_of(thing)


def _group_owner(owner: Object) -> GroupOwner:
    return GroupOwner(owner.api_version, owner.kind.name, owner.name, owner.uid)


def _top_owner(top: Object) -> TopOwner:
    return TopOwner(top.name, top.uid, top.kind, top.api_version.rpartition("/")[2])


def _labels(work: Workload, shape: Shape) -> dict[str, str]:
    """Return the owners' labels, and the pod's user and pool."""
    labels = {
        key: word
        for each in _told(work, shape)
        for key, word in each.labels.items()
        if not key.startswith(keys.GPU_GROUP)
    }
    pod = work.pod.labels
    if user := pod.get(keys.USER):
        labels[keys.USER] = user
    pool = work.settings.node_pool_label
    if pool in pod:
        labels.setdefault(pool, pod[pool])
    return labels


def _annotations(work: Workload, shape: Shape) -> dict[str, str]:
    """Return the owners' annotations but for the manifest kubectl keeps there, and the top owner."""
    words = {key: word for each in _told(work, shape) for key, word in each.annotations.items()}
    drop = {keys.LAST_APPLIED, keys.POD_GROUP, *keys.WRITTEN_AT_PLACING}
    kept = {key: word for key, word in words.items() if key not in drop}
    return {**kept, keys.TOP_OWNER: top_owner_text(_top_owner(work.top))}


def top_owner_text(top: TopOwner) -> str:
    """Return the annotation's YAML; written here, as a YAML writer takes longer than all grouping."""
    fields = {
        "name": top.name,
        "uid": top.uid,
        "group": top.kind.group,
        "version": top.version,
        "kind": top.kind.name,
    }
    return "".join(f"{field}: {_yaml_text(word)}\n" for field, word in fields.items())


def _yaml_text(word: str) -> str:
    is_plain = _PLAIN.fullmatch(word) and word.lower() not in _NOT_TEXTS
    return word if is_plain else json.dumps(word)


def _told(work: Workload, shape: Shape) -> tuple[Object, ...]:
    """Return whose labels a group repeats, the one that counts more last.

    The top owner and, where the group follows another object as Grove's PodGang, that one. What
    stands between speaks for some of the pods only.
    """
    return work.top, shape.asked_by[0]
