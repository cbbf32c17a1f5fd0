"""The given scenarios once more, each with something changed that must not matter.

Whoever decides by luck (the order of entries, a name, what stands beside) is found out here.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.model.policy import Policy
from scheduler_service.simulate import reader, run

SHARED = Path(os.environ.get("KAI_SHARED", Path(__file__).parents[3] / "shared"))
GIVEN = sorted((SHARED / "conformance" / "scenarios").glob("*.json"))
Raw = dict[str, Any]
FREE = {"quota": None, "limit": None, "over_quota_weight": 1}
NONE = {"quota": 0, "limit": None, "over_quota_weight": 0}


def _queue(parent: str | None, share: Raw, *, created: int = 10**6) -> Raw:
    amounts = {name: dict(share) for name in ("gpu_milli", "cpu_milli", "memory_bytes")}
    return {"parent": parent, "priority": 100, "created": created, **amounts}


def _waiting(name: str, queue: str, created: int) -> Raw:
    request = {"cpu_milli": 1, "memory_bytes": 1, "gpus": 1}
    pod = {"name": f"{name}-0", "state": "pending", "subgroup": "default", "request": request}
    leaf = {"name": "default", "topology": None, "min_members": 1}
    return {
        "queue": queue,
        "namespace": name,
        "priority": 999,
        "preemptible": True,
        "created": created,
        "stale_for_s": None,
        "gang": {"topology": None, "subgroups": [leaf]},
        "pods": [pod],
    }


def with_everything_backwards(raw: Raw) -> None:
    """Entries come in the opposite order; it carries no meaning."""
    for part in ("nodes", "queues", "pod_groups"):
        raw[part] = dict(reversed(list(raw[part].items())))
    for group in raw["pod_groups"].values():
        group["pods"].reverse()


def with_a_node_that_offers_nothing(raw: Raw) -> None:
    """A machine that is being set up."""
    raw["nodes"]["zz"] = {
        "gpus": 0,
        "gpu_memory_mib": None,
        "cpu_milli": 0,
        "memory_bytes": 0,
        "max_pods": 0,
        "labels": {},
        "mig": {},
        "mig_strategy": None,
    }


def with_idle_queues(raw: Raw) -> None:
    """At each place in the tree one more queue, of which nobody wants anything."""
    for parent in {queue["parent"] for queue in raw["queues"].values()}:
        raw["queues"][f"zz-{parent}"] = _queue(parent, NONE)


def with_one_queue_above_all(raw: Raw) -> None:
    """The same tree, one level deeper. Minimum run times between top queues mean something else then."""
    if any(queue.get("reclaim_min_runtime_s") is not None for queue in raw["queues"].values()):
        return
    for queue in raw["queues"].values():
        queue["parent"] = queue["parent"] or "zz"
    raw["queues"]["zz"] = _queue(None, FREE, created=0)


def with_work_of_a_queue_that_does_not_exist(raw: Raw) -> None:
    """Somebody mistyped the queue."""
    raw["pod_groups"]["zz"] = _waiting("zz", "zz-nowhere", -1)


def with_work_that_may_never_start(raw: Raw) -> None:
    """A queue with a limit of 0, and somebody who waits there for good."""
    raw["queues"]["zz"] = _queue(None, NONE)
    raw["queues"]["zz"]["gpu_milli"]["limit"] = 0
    raw["pod_groups"]["zz"] = _waiting("zz", "zz", 10**6)


def with_a_gated_pod_in_each_group(raw: Raw) -> None:
    """A member that may not be placed yet."""
    for name, group in raw["pod_groups"].items():
        leaf = group["gang"]["subgroups"][0]
        while "subgroups" in leaf:
            leaf = leaf["subgroups"][0]
        request = {"cpu_milli": 1, "memory_bytes": 1, "gpus": 1}
        gated = {"name": f"zz-{name}", "state": "gated", "subgroup": leaf["name"]}
        group["pods"].append({**gated, "request": request})


def with_other_moments(raw: Raw) -> None:
    """Everything was made at another time, in the same order."""
    for part in ("queues", "pod_groups"):
        for entry in raw[part].values():
            entry["created"] = entry["created"] * 7 + 3


CHANGES: list[Callable[[Raw], None]] = [
    with_everything_backwards,
    with_a_node_that_offers_nothing,
    with_idle_queues,
    with_one_queue_above_all,
    with_work_of_a_queue_that_does_not_exist,
    with_work_that_may_never_start,
    with_a_gated_pod_in_each_group,
    with_other_moments,
]


@pytest.mark.skipif(not GIVEN, reason=f"no conformance scenarios under {SHARED}")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_must_not_matter_does_not(change: Callable[[Raw], None]):
    failed: dict[str, list[str]] = {}
    for file in GIVEN:
        raw = json.loads(file.read_text())
        change(raw)
        lines = run.failures(reader.scenario_of(file, raw, Policy.conformance()))
        if lines:
            failed[file.stem] = lines
    assert not failed
