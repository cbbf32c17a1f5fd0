"""The two ConfigMaps in which a cluster's owner says how kinds are grouped; both are followed, no restart is needed.

`kai-grouping-rules`: rules for kinds that are not in the table (see `grouping.own_rules`).
`kai-grouping-defaults`: KAI's `types`: priority class and preemptibility by kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from scheduler_service.backends.kubernetes.objects import Labels, Meta, decoder
from scheduler_service.errors import ConfigurationError
from scheduler_service.grouping.own_rules import NO_RULES, OwnRules, read_own_rules
from scheduler_service.grouping.settings import KindDefaults, read_kind_defaults
from scheduler_service.model.resources import nothing

RULES = "kai-grouping-rules"
DEFAULTS = "kai-grouping-defaults"


class RawConfigMap(msgspec.Struct, frozen=True, gc=False):
    """A ConfigMap of the API."""

    metadata: Meta
    data: Labels = msgspec.field(default_factory=nothing)


_decode = decoder(RawConfigMap)


def decode_config_map(body: bytes) -> RawConfigMap | None:
    """Return the ConfigMap if it is one that grouping reads."""
    found = _decode(body)
    return found if found.metadata.name in {RULES, DEFAULTS} else None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What can be used, and a sentence for each thing that can not."""

    rules: OwnRules = NO_RULES
    kind_defaults: Mapping[str, KindDefaults] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def choose(found: Iterable[RawConfigMap]) -> Chosen:
    """Return what the ConfigMaps say; a bad entry spoils itself alone."""
    data = {each.metadata.name: each.data for each in found}
    rules = read_own_rules(data.get(RULES, {}))
    problems = tuple(f"ConfigMap {RULES}: {each}" for each in rules.problems)
    try:
        kinds = read_kind_defaults(data.get(DEFAULTS, {}))
    except ConfigurationError as error:
        kinds, problems = {}, (*problems, f"ConfigMap {DEFAULTS}: {error}")
    return Chosen(rules, kinds, problems)
