"""Rows for kinds that are not in the table, written by the cluster's owner into a ConfigMap.

    rules:
    - group: example.com
      kind: TrainingRun
      minMember: [1, spec.workers.replicas]      # a number, a path, or a list that is added up
      priorityClassName: train
      queue: spec.queue
      subGroups:
      - {name: launcher, minMember: 1, pods: {role: launcher}}
      - {name: worker, minMember: spec.workers.replicas, pods: {role: worker}}
      suspended: spec.suspend
      finished: {path: status.phase, values: [Succeeded, Failed]}

`split: pod` gives each pod a group of its own, `split: skip` leaves it to what the object owns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
import yaml

from scheduler_service.grouping.lifecycle import Ends
from scheduler_service.grouping.objects import Kind, Object
from scheduler_service.grouping.shape import (
    Shape,
    ShapeOf,
    Workload,
    gang,
    group_a_pod,
    with_children,
)
from scheduler_service.grouping.table import TABLE, TRAIN, Row
from scheduler_service.model.pod_group import SubGroup

Amount = int | str | list[int | str]
_SUFFIXES = (".yaml", ".yml")


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A sub-group: its pods are those with all of these labels."""

    name: str
    pods: dict[str, str]
    min_member: Amount = 1


class _Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    values: tuple[str, ...]


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: str
    group: str = ""
    split: Literal["owner", "pod", "skip"] = "owner"
    min_member: Amount | None = None
    priority_class_name: str = TRAIN
    queue: str = ""
    sub_groups: tuple[_Part, ...] = ()
    suspended: str = ""
    finished: _Finished | None = None
    conditions: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[_Rule, ...]


class OwnRules(msgspec.Struct, frozen=True):
    """The rows that can be used, and a sentence for each that can not."""

    rows: Mapping[Kind, Row]
    problems: tuple[str, ...] = ()


NO_RULES = OwnRules({})


def read_own_rules(data: Mapping[str, str]) -> OwnRules:
    """Return the rows of all YAML entries of a ConfigMap's data; a bad one spoils itself alone."""
    rows: dict[Kind, Row] = {}
    problems: list[str] = []
    for key in sorted(data):
        if not key.endswith(_SUFFIXES):
            problems.append(f"{key} is not read: name the entry {key}.yaml.")
            continue
        try:
            rules = msgspec.convert(yaml.safe_load(data[key]), _File).rules
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            problems.append(f"{key} can not be used. {_told(error)} Correct the ConfigMap.")
            continue
        for rule in rules:
            kind = Kind(rule.group, rule.kind)
            if problem := _problem(rule, kind, rows):
                problems.append(f"{key}: {problem}")
            else:
                rows[kind] = _row(rule)
    return OwnRules(rows, tuple(problems))


def _told(error: Exception) -> str:
    """Return a parser's words as one sentence."""
    return " ".join(str(error).replace("`", "").split()).rstrip(".") + "."


def _problem(rule: _Rule, kind: Kind, rows: Mapping[Kind, Row]) -> str:
    """Return why a rule can not be used, "" if it can."""
    names = [part.name for part in rule.sub_groups]
    is_split = rule.split != "owner"
    checks = (
        (not rule.kind, "a rule has no kind. Write the kind of the owner."),
        (kind in TABLE, f"{kind} has a rule already that can not be replaced. Remove this one."),
        (kind in rows, f"{kind} has two rules. Remove one."),
        (
            is_split and bool(names or rule.min_member is not None),
            f"{kind} is split by {rule.split}: minMember and subGroups say nothing. Remove them.",
        ),
        (
            len(set(names)) < len(names) or not all(p.name and p.pods for p in rule.sub_groups),
            f"{kind}: each sub-group needs a name of its own and the labels of its pods.",
        ),
    )
    return next((sentence for is_wrong, sentence in checks if is_wrong), "")


def _row(rule: _Rule) -> Row:
    finished = rule.finished or _Finished("status.phase", ())
    return Row(
        rule.group,
        rule.kind,
        group_a_pod if rule.split == "pod" else _shape_of(rule),
        rule.priority_class_name,
        Ends(
            asleep=(rule.suspended,) if rule.suspended else (),
            conditions=dict.fromkeys(rule.conditions, ("True",)),
            phase=finished.path,
            finished=finished.values,
        ),
        skips=rule.split == "skip",
    )


def _shape_of(rule: _Rule) -> ShapeOf:
    def shape(work: Workload) -> Shape:
        owner = work.top
        parts = tuple(
            SubGroup(part.name, _amount(owner, part.min_member)) for part in rule.sub_groups
        )
        whole = sum(part.min_members for part in parts) if parts else 1
        minimum = whole if rule.min_member is None else _amount(owner, rule.min_member)
        found = msgspec.structs.replace(gang(work, minimum=minimum), queue=_queue(owner, rule))
        return with_children(found, parts, leaf=_leaf(work, rule)) if parts else found

    return shape


def _queue(owner: Object, rule: _Rule) -> str:
    return owner.text(*rule.queue.split(".")) if rule.queue else ""


def _leaf(work: Workload, rule: _Rule) -> str:
    for part in rule.sub_groups:
        if part.pods.items() <= work.pod.labels.items():
            return part.name
    raise work.pod.refusal(
        f"Its labels put it into none of the sub-groups of {work.top}.",
        hint="Correct the labels, or the rule of this kind in the ConfigMap.",
    )


def _amount(owner: Object, amount: Amount) -> int:
    """Return the number: as it stands, at a path (absent is 1, as controllers read it), or a sum."""
    if isinstance(amount, list):
        return sum(_amount(owner, each) for each in amount)
    if isinstance(amount, int):
        return max(0, amount)
    number = owner.number(*amount.split("."))
    return 1 if number is None else number
