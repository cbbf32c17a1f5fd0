"""Reads ``queues.yaml``: the tree of queues in human units, who may use them, and the planner's policy.

Rule: a fault names file, line, field and what to write there; nothing is guessed, an unknown field is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from scheduler_service.model.policy import ACTIONS, Policy
from scheduler_service.model.quantities import parse_bytes, parse_milli_cpu, parse_milli_gpu
from scheduler_service.model.queue import Queue
from scheduler_service.model.resources import QueueShare
from scheduler_service.settings.located import Located, read
from scheduler_service.settings.subjects import EVERYBODY, GROUP, USER

FILE_NAME = "queues.yaml"
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
BASE_POLICY = msgspec.structs.replace(
    Policy.default(), actions=tuple(action for action in ACTIONS if action != "consolidate")
)
"""Moving running work to make room is for who asks for it by name: its processes are stopped and begin again."""
AMOUNTS: Mapping[str, Callable[[str], int]] = {
    "gpu": parse_milli_gpu,
    "cpu": parse_milli_cpu,
    "memory": parse_bytes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """Who may submit (``*``, ``user:ana``, ``group:vision``), who leads, whether names are shown, what is idle."""

    subjects: tuple[str, ...] = (EVERYBODY,)
    leads: tuple[str, ...] = ()
    show_names: bool = False
    idle_after_s: int = 900
    idle_release_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """The queues in force, their rules, and the policy."""

    queues: tuple[Queue, ...]
    rules: Mapping[str, QueueRules] = field(default_factory=dict)
    policy: Policy = BASE_POLICY

    def rules_of(self, queue: str) -> QueueRules:
        """Return the rules of a queue."""
        return self.rules.get(queue, QueueRules())

    def leads_of(self, queue: str) -> Iterator[str]:
        """Yield who answers for a queue: whom it names, and whom those above it name."""
        parents = {each.name: each.parent for each in self.queues}
        name: str | None = queue
        while name is not None:
            yield from self.rules_of(name).leads
            name = parents.get(name)


def default_config(whole_gpus: int) -> QueueConfig:
    """Return what is in force without a file: one leaf `default`, whose quota is the machine."""
    queue = Queue("default", gpu=QueueShare(quota=whole_gpus * 1000))
    return QueueConfig(queues=(queue,), rules={"default": QueueRules(show_names=True)})


def parse_duration_s(text: str) -> int:
    """Return seconds for "90", "15m", "2h" or "14d"."""
    body = text.strip()
    digits = body.rstrip("smhdin")
    unit = body[len(digits) :]
    if not digits.isdigit() or (unit and unit not in UNITS):
        raise ValueError(text)
    return int(digits) * UNITS.get(unit, 1)


def read_queues(file: Path) -> QueueConfig | None:
    """Return what the file says; None if there is none. Raises `ConfigurationError` with the place of the fault."""
    root = read(file)
    if root is None:
        return None
    queues: dict[str, tuple[Queue, QueueRules, Located]] = {}
    policy = BASE_POLICY
    for name, part in root.entries():
        if name == "queues":
            queues = {
                queue: (*_queue(queue, at, n), at) for n, (queue, at) in enumerate(part.entries())
            }
        elif name == "policy":
            policy = _policy(part)
        else:
            raise part.refuse("is not known here.", "The file has `queues:` and `policy:`.")
    if not queues:
        raise root.refuse("no queue is named.", "Write `queues:` and below it at least one name.")
    _check_tree(queues)
    return QueueConfig(
        queues=tuple(queue for queue, _, _ in queues.values()),
        rules={name: rules for name, (_, rules, _) in queues.items()},
        policy=policy,
    )


def _queue(name: str, at: Located, number: int) -> tuple[Queue, QueueRules]:
    fields: dict[str, Any] = {"created": number}
    rules: dict[str, Any] = {}
    for key, value in () if at.is_null else at.entries():
        if key in AMOUNTS:
            fields[key] = _share(value, AMOUNTS[key])
        elif key in _QUEUE_FIELDS:
            target, parse, hint = _QUEUE_FIELDS[key]
            fields[target] = None if value.is_null else value.parsed(parse, hint)
        elif key in _RULES:
            rules.update(_RULES[key](value))
        else:
            known = ", ".join([*AMOUNTS, *_QUEUE_FIELDS, *_RULES])
            raise value.refuse("is not a field of a queue.", f"The fields are: {known}.")
    return Queue(name, **fields), QueueRules(**rules)


def _share(at: Located, parse: Callable[[str], int]) -> QueueShare:
    if not at.is_mapping:
        return QueueShare(quota=_amount(at, parse))
    found: dict[str, Any] = {}
    for key, value in at.entries():
        if key in {"quota", "limit"}:
            found[key] = _amount(value, parse)
        elif key == "over_quota_weight":
            found[key] = value.parsed(_not_negative, "A whole number from 0.")
        else:
            raise value.refuse("is not known here.", "Write quota, limit or over_quota_weight.")
    return QueueShare(**found)


def _amount(at: Located, parse: Callable[[str], int]) -> int | None:
    if at.is_null or at.text() == "unlimited":
        return None
    return at.parsed(parse, "Write an amount like 8, 0.5 or 64GiB; null is unlimited.")


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _milliseconds(text: str) -> int:
    return parse_duration_s(text) * 1000


_DURATION = "Write a time like 90s, 15m or 2h."
_QUEUE_FIELDS: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "parent": ("parent", str, "The name of another queue."),
    "priority": ("priority", int, "A whole number; higher comes first."),
    "created": ("created", int, "A whole number; smaller comes first."),
    "preempt_min_runtime": ("preempt_min_runtime_ms", _milliseconds, _DURATION),
    "reclaim_min_runtime": ("reclaim_min_runtime_ms", _milliseconds, _DURATION),
}


def _subjects(at: Located) -> dict[str, Any]:
    found = []
    for item in at.items():
        text = item.text()
        if text != EVERYBODY and text.partition(":")[0] not in {USER, GROUP}:
            raise item.refuse(f"{text!r} names nobody.", 'Write "*", user:NAME or group:NAME.')
        found.append(text)
    return {"subjects": tuple(found)}


def _leads(at: Located) -> dict[str, Any]:
    for item in at.items():
        if item.text() == EVERYBODY:
            raise item.refuse(
                "everybody can not lead a queue.",
                "Write user:NAME or group:NAME; who leads sees and ends the work of others.",
            )
    return {"leads": _subjects(at)["subjects"]}


def _show_names(at: Located) -> dict[str, Any]:
    value = at.plain()
    if not isinstance(value, bool):
        raise at.refuse(f"{at.text()!r} is neither true nor false.", "Write true or false.")
    return {"show_names": value}


def _idle(at: Located) -> dict[str, Any]:
    names = {"after": "idle_after_s", "release": "idle_release_s"}
    found: dict[str, Any] = {}
    for key, value in at.entries():
        if key not in names:
            raise value.refuse(
                "is not known here.", "Write after or release, each a time like 15m."
            )
        found[names[key]] = None if value.is_null else value.parsed(parse_duration_s, _DURATION)
    return found


_RULES: Mapping[str, Callable[[Located], dict[str, Any]]] = {
    "subjects": _subjects,
    "leads": _leads,
    "show_names": _show_names,
    "idle": _idle,
}


def _policy(at: Located) -> Policy:
    merged = msgspec.to_builtins(BASE_POLICY)
    known = ", ".join(merged)
    for key, value in () if at.is_null else at.entries():
        if key not in merged:
            raise value.refuse("is not a field of the policy.", f"The fields are: {known}.")
        try:
            msgspec.convert({**merged, key: value.plain()}, Policy)
        except msgspec.ValidationError as error:
            raise value.refuse(f"{error}.", "Use a value of the kind that it names.") from error
        merged[key] = value.plain()
    return msgspec.convert(merged, Policy)


def _check_tree(queues: Mapping[str, tuple[Queue, QueueRules, Located]]) -> None:
    for name, (queue, _, at) in queues.items():
        if queue.parent is not None and queue.parent not in queues:
            raise at.refuse(
                f"its parent {queue.parent} is not a queue of this file.",
                "Add that queue or correct the name.",
            )
        path = [name]
        parent = queue.parent
        while parent is not None:
            if parent in path:
                raise at.refuse(
                    f"its parents go in a circle: {' > '.join([*path, parent])}.",
                    "Cut it at one place.",
                )
            path.append(parent)
            parent = queues[parent][0].parent


def load_queues(file: Path, whole_gpus: int) -> QueueConfig:
    """Return the queues in force: of the file, else the default one."""
    return read_queues(file) or default_config(whole_gpus)
