"""Human units and defaults for scenario files in YAML, written out to the format's own fields.

`gpu: 1`, `cpu: 4`, `memory: 8GiB` instead of base units, one line for pods that are alike, and
defaults for what a case is not about. JSON files never come here: there nothing is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_service.errors import ConfigurationError, RequestError
from scheduler_service.model.quantities import (
    parse_bytes,
    parse_mib,
    parse_milli_cpu,
    parse_milli_gpu,
)

PRIORITIES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
NON_PREEMPTIBLE_FROM: Final = 100
PLACEMENT: Final = {"gpu": "pack", "cpu": "pack", "shared_gpu": "pack"}
POLICY: Final = {
    "placement": PLACEMENT,
    "stale_gang_grace_s": 60,
    "max_consolidation_victims": None,
}
NODE: Final = {
    "gpus": 0,
    "gpu_memory_mib": 16_000,
    "cpu_milli": 64_000,
    "memory_bytes": 256_000_000_000,
    "max_pods": 110,
    "labels": {},
    "mig": {},
    "mig_strategy": None,
}
UNLIMITED: Final = {"quota": None, "limit": None, "over_quota_weight": 1}
ACTIONS: Final = {
    "consolidate": "consolidation",
    "evict_stale_gangs": "stale_gang_eviction",
}
Value = Any


def write_out(file: Mapping[str, Value]) -> dict[str, Value]:
    """Return the file with every shorthand replaced and every default filled in."""
    full: dict[str, Value] = {"format": 1, "tags": [], "nodes": {}, "queues": {}, **file}
    full["pod_groups"] = dict(file.get("pod_groups") or {})
    if "run" in file:
        full["run"] = _run(file["run"])
    full["policy"] = {**POLICY, **(file.get("policy") or {})}
    full["policy"]["placement"] = {**PLACEMENT, **full["policy"]["placement"]}
    for name, entry in _entries(full, "nodes"):
        full["nodes"][name] = _node(entry)
    for name, entry in _entries(full, "queues"):
        full["queues"][name] = _queue(entry)
    for name, entry in _entries(full, "pod_groups"):
        full["pod_groups"][name] = _pod_group(name, entry)
    if "expect" in file:
        full["expect"] = _expect(file["expect"] or {})
    return full


def _entries(full: dict[str, Value], field: str) -> list[tuple[str, dict[str, Value]]]:
    entries = full[field]
    if not isinstance(entries, Mapping):
        raise ConfigurationError(f"{field} is not a mapping by name.")
    full[field] = dict(entries)
    for name, entry in entries.items():
        if entry is not None and not isinstance(entry, Mapping):
            raise ConfigurationError(f"{field}.{name} is not a mapping.")
    return [(str(name), dict(entry or {})) for name, entry in entries.items()]


def _run(run: Value) -> Value:
    found: dict[str, Value] = {"action": run} if isinstance(run, str) else dict(run)
    action = str(found.get("action"))
    found["action"] = ACTIONS.get(action, action)
    return found


UNITS: Final[tuple[tuple[str, str, Callable[[Value], int]], ...]] = (
    ("cpu", "cpu_milli", parse_milli_cpu),
    ("memory", "memory_bytes", parse_bytes),
    ("gpu_memory", "gpu_memory_mib", parse_mib),
    ("fraction", "gpu_fraction_milli", parse_milli_gpu),
)


def _base_units(entry: dict[str, Value]) -> dict[str, Value]:
    """Return the entry with human units replaced by base units."""
    found = dict(entry)
    for human, base, parse in UNITS:
        if human in found:
            value = found.pop(human)
            found[base] = None if value is None else _parsed(parse, value)
    return found


def _parsed(parse: Callable[[Value], int], value: Value) -> int:
    try:
        return parse(value)
    except RequestError as error:
        raise ConfigurationError(error.what, hint=error.hint) from None


def _node(entry: dict[str, Value]) -> dict[str, Value]:
    return {**NODE, **_base_units(entry)}


def _queue(entry: dict[str, Value]) -> dict[str, Value]:
    """Return a queue; `quota`, `limit`, `weight` alone mean GPUs, without them it is unlimited."""
    plain = {key: entry.pop(key) for key in ("quota", "limit", "weight") if key in entry}
    if plain and "gpu" in entry:
        raise ConfigurationError("a queue has either quota, limit, weight or gpu: {...}.")
    gpu = entry.pop("gpu", plain or None)
    full: dict[str, Value] = {"parent": None, "priority": 100, "created": 0, **entry}
    if "gpu_milli" not in entry:
        full["gpu_milli"] = _entitlement(gpu, parse_milli_gpu)
    for human, base, parse in UNITS[:2]:
        full[base] = entry.get(base) or _entitlement(full.pop(human, None), parse)
    return full


def _entitlement(entry: Value, parse: Callable[[Value], int]) -> dict[str, Value]:
    if entry is None:
        return dict(UNLIMITED)
    found = {"quota": 0, "limit": None, "over_quota_weight": entry.get("weight", 1)}
    for bound in ("quota", "limit"):
        if bound in entry:
            found[bound] = None if entry[bound] is None else _parsed(parse, entry[bound])
    return found


MEMBER: Final = ("gpus", "fraction", "gpu_memory", "mig", "devices", "cpu", "memory")


def _pod_group(name: str, entry: dict[str, Value]) -> dict[str, Value]:
    """Return a group; `count` alike pods take `gpus`, `cpu`, … and `running_on` from the group."""
    each: dict[str, Value] = {key: entry.pop(key) for key in MEMBER if key in entry}
    count, places = entry.pop("count", None), entry.pop("running_on", None)
    minimum = entry.pop("min_members", None)
    priority = PRIORITIES.get(entry.get("priority", "train"), entry.get("priority"))
    pods = [_pod(name, pod, each) for pod in entry.pop("pods", [])]
    if not pods:
        running = [places] if isinstance(places, str) else list(places or [])
        pods = _alike(name, max(count or 1, len(running)), running, each)
    gang = {
        "topology": entry.pop("topology", None),
        "subgroups": [
            {
                "name": "default",
                "topology": None,
                "min_members": len(pods) if minimum is None else minimum,
            }
        ],
    }
    return {
        "namespace": "default",
        "preemptible": isinstance(priority, int) and priority < NON_PREEMPTIBLE_FROM,
        "created": 0,
        "stale_for_s": None,
        "gang": gang,
        **entry,
        "priority": priority,
        "pods": pods,
    }


def _alike(
    name: str, count: int, running: list[str], each: dict[str, Value]
) -> list[dict[str, Value]]:
    """Return `count` pods: the first ones run on the nodes given, the others wait."""
    pods: list[dict[str, Value]] = []
    for number in range(count):
        place = {"node": running[number], "state": "running"} if number < len(running) else {}
        pods.append(_pod(name, {"name": f"{name}-{number}", **place}, each))
    return pods


def _pod(group: str, pod: Mapping[str, Value], each: dict[str, Value]) -> dict[str, Value]:
    full = {"name": group, "state": "pending", "subgroup": "default", **pod}
    own = {key: full.pop(key) for key in MEMBER if key in full}
    request = {"cpu": 1, "memory": "1GB", **each, **own, **full.get("request", {})}
    full["request"] = _base_units(request)
    return full


def _expect(expect: Mapping[str, Value]) -> dict[str, Value]:
    """Return the expectation; a pod's may be "running" or "bound node0"."""
    full = dict(expect)
    full["pods"] = {
        name: _pod_expectation(wanted) if isinstance(wanted, str) else wanted
        for name, wanted in (expect.get("pods") or {}).items()
    }
    return full


def _pod_expectation(text: str) -> dict[str, Value]:
    state, _, node = text.partition(" ")
    return {"state": state, "node": node} if node else {"state": state}
