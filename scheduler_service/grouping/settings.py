"""What a cluster's owner chooses about grouping, parsed from flags and ConfigMaps by the shell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.errors import ConfigurationError
from scheduler_service.grouping import keys
from scheduler_service.grouping.objects import Kind
from scheduler_service.model.pod_group import Preemptibility

TYPES = "types"


class KindDefaults(msgspec.Struct, frozen=True):
    """What groups of a kind get where no label says otherwise."""

    priority_class: str = ""
    preemptibility: Preemptibility | None = None


class GroupingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The choices. `kind_defaults` by `Kind.group` or `Kind`, the first wins."""

    scheduler_names: frozenset[str] = frozenset({"kai-scheduler"})
    default_queue: str = "default-queue"
    queue_label: str = keys.QUEUE
    node_pool_label: str = keys.NODE_POOL
    knative_gangs: bool = True
    keep_old_names: bool = True
    kind_defaults: Mapping[str, KindDefaults] = msgspec.field(default_factory=dict)

    def defaults_of(self, kind: Kind) -> KindDefaults:
        """Return what the owner of the cluster set for a kind."""
        return self.kind_defaults.get(str(kind)) or self.kind_defaults.get(kind.name, _NONE)


_NONE = KindDefaults()


def read_kind_defaults(data: Mapping[str, str]) -> dict[str, KindDefaults]:
    """Return the defaults by kind from KAI's ConfigMap: key `types`, a JSON list.

    Each entry has `typeName`, and may have `group`, `priorityName`, `preemptibility`.
    """
    try:
        entries = json.loads(data.get(TYPES, "[]"))
    except ValueError as error:
        raise _unusable(f"{TYPES} is not JSON: {error}.") from None
    if not isinstance(entries, list):
        raise _unusable(f"{TYPES} is not a list.")
    return dict(_entry(index, entry) for index, entry in enumerate(entries))


def _entry(index: int, entry: Any) -> tuple[str, KindDefaults]:
    if not isinstance(entry, dict) or not all(isinstance(word, str) for word in entry.values()):
        raise _unusable(f"Entry {index} of {TYPES} is not a mapping of texts.")
    name = entry.get("typeName", "")
    if not name:
        raise _unusable(f"Entry {index} of {TYPES} has no typeName.")
    preemptibility = entry.get("preemptibility", "")
    if preemptibility and preemptibility not in set(Preemptibility):
        raise _unusable(f"{preemptibility!r} of {name} is no preemptibility.")
    defaults = KindDefaults(
        priority_class=entry.get("priorityName", ""),
        preemptibility=Preemptibility(preemptibility) if preemptibility else None,
    )
    return str(Kind(entry.get("group", ""), name)), defaults


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(
        "The defaults by kind can not be used.", why=why, hint="Correct the ConfigMap."
    )
