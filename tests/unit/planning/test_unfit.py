"""Why a pod has no place now: what is missing, in numbers, on the node that comes nearest."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.reasons import (
    AffinityUnmet,
    ClaimUnusable,
    GpuMemoryUnknown,
    NeverFits,
    NoMatchingNode,
    NotEnoughOnNode,
    Reason,
)
from scheduler_service.planning.cycle import plan
from tests.field.reports import scenario

GIB = 2**30


def why(
    nodes: dict[str, Any], request: dict[str, Any], *others: Any, **parts: Any
) -> Reason | None:
    """Return why a pod that asks for this waits beside others that are there already."""
    pod = {"name": "want-0", "request": request, **parts.pop("rules", {})}
    groups = {f"g{number}": group for number, group in enumerate(others)}
    groups["want"] = {"queue": "a", "created": 99, "pods": [pod]}
    world = scenario(
        nodes=nodes, queues={"a": {}}, pod_groups=groups, run="allocate", expect={}, **parts
    ).world
    made = plan(Ledger.from_snapshot(world.snapshot), world.policy, world.snapshot.now_ms)
    found = [waits for waits in made.waiting if waits.group.endswith("want")]
    return found[0].main_reason if found else None


def on(node: str, request: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a group of one pod that holds this on a node."""
    pod = {"name": f"{node}-{sorted(request)}-{len(more)}", "state": "running", "node": node}
    return {"queue": "a", "pods": [{**pod, "request": request, **more}]}


NODE = {"gpus": 2, "gpu_memory_mib": 16_000, "cpu": 8, "memory": "8GiB", "max_pods": 3}
TABLE: list[tuple[dict[str, Any], Reason]] = [
    ({"gpus": 3}, NeverFits("gpu", 3000, 2000)),
    ({"gpu_memory": "16001MiB"}, NeverFits("gpu_memory", 16_001, 16_000)),
    ({"fraction": 0.5, "devices": 3}, NeverFits("devices", 3, 2, "0.5 GPU")),
    ({"gpu_memory": "1GiB", "devices": 3}, NeverFits("devices", 3, 2, "1 GiB")),
    ({"cpu": 9}, NeverFits("cpu", 9000, 8000)),
    ({"memory": "9GiB"}, NeverFits("memory", 9 * GIB, 8 * GIB)),
    ({"mig": {"1g.10gb": 1}}, NeverFits("mig", 1, 0, "1g.10gb")),
    ({"extended": {"rdma": 2}}, NeverFits("extended", 2, 1, "rdma")),
]


@pytest.mark.parametrize(("request_", "reason"), TABLE)
def test_what_no_node_has_is_never_to_be_had(request_: dict[str, Any], reason: Reason) -> None:
    smaller = {**NODE, "gpus": 1, "cpu": 4, "memory": "4GiB", "gpu_memory_mib": 8000}

    assert why({"n0": smaller, "n1": {**NODE, "extended": {"rdma": 1}}}, request_) == reason


def test_what_others_hold_of_a_node_is_not_offered() -> None:
    foreign = {"foreign_cpu_milli": 3000, "foreign_memory_bytes": 2 * GIB, "foreign_pods": 3}
    node = {"n0": {**NODE, **foreign}}

    assert why(node, {"cpu": 6}) == NeverFits("cpu", 6000, 5000)
    assert why(node, {"memory": "7GiB"}) == NeverFits("memory", 7 * GIB, 6 * GIB)
    assert why(node, {}) == NeverFits("pods", 1, 0)


def test_a_node_without_gpus_or_of_unknown_memory_offers_none() -> None:
    nodes = {"n0": {**NODE, "gpus": 0}, "n1": {**NODE, "gpu_memory_mib": 4000}}

    assert why(nodes, {"gpu_memory": "8000MiB"}) == NeverFits("gpu_memory", 8000, 4000)
    assert why({"n0": {**NODE, "gpu_memory_mib": None}}, {"gpu_memory": "1GiB"}) == (
        GpuMemoryUnknown()
    )


FREE: list[tuple[dict[str, Any], dict[str, Any], Reason]] = [
    ({"gpus": 1}, {"gpus": 2}, NotEnoughOnNode("gpu", 2000, 1000, "n0")),
    ({"cpu": 7}, {"cpu": 2}, NotEnoughOnNode("cpu", 2000, 1000, "n0")),
    ({"cpu": 0, "memory": "6GiB"}, {"memory": "3GiB"}, NotEnoughOnNode("memory", 3 * GIB, 2 * GIB, "n0")),
    ({"mig": {"1g.10gb": 1}}, {"mig": {"1g.10gb": 2}}, NotEnoughOnNode("mig", 2, 1, "n0", "1g.10gb")),
    ({"extended": {"rdma": 1}}, {"extended": {"rdma": 2}}, NotEnoughOnNode("extended", 2, 1, "n0", "rdma")),
]  # fmt: skip


@pytest.mark.parametrize(("held", "request_", "reason"), FREE)
def test_what_is_held_is_missing(
    held: dict[str, Any], request_: dict[str, Any], reason: Reason
) -> None:
    slices = {"mig": {"1g.10gb": 2}, "mig_strategy": "mixed", "gpus": 0} if "mig" in held else {}
    node = {**NODE, "extended": {"rdma": 2}, **slices}

    assert why({"n0": node}, request_, on("n0", held)) == reason


def test_pod_slots_run_out() -> None:
    full = [on("n0", {"cpu": 1}, labels={str(number): ""}) for number in range(3)]
    for number, group in enumerate(full):
        group["pods"][0]["name"] = f"p{number}"

    assert why({"n0": NODE}, {"cpu": 1}, *full) == NotEnoughOnNode("pods", 1, 0, "n0")


def test_a_part_on_a_gpu_of_its_own_needs_a_second_slot() -> None:
    """When this happens: the pod that reserves the GPU for those that share it is a pod as well."""
    node, held = {**NODE, "max_pods": 2}, on("n0", {"cpu": 1})

    assert why({"n0": node}, {"fraction": 0.5, "cpu": 1}, held) == (
        NotEnoughOnNode("pods", 2, 1, "n0")
    )
    assert why(
        {"n0": {**node, "max_pods": 3}}, {"fraction": 0.5, "devices": 2, "cpu": 1}, held
    ) == (NotEnoughOnNode("pods", 3, 2, "n0"))
    assert why({"n0": {**node, "max_pods": 3}}, {"fraction": 0.5, "cpu": 1}, held) is None


def test_beside_others_a_part_needs_one_slot() -> None:
    nodes, others = {"n0": {**NODE, "max_pods": 3}}, (share("x", 0.5, "g0"),)

    assert why(nodes, {"fraction": 0.5, "cpu": 8}, *others) == NotEnoughOnNode(
        "cpu", 8000, 7000, "n0"
    )


def share(name: str, milli: float, gpu: str, node: str = "n0") -> dict[str, Any]:
    """Return a group of one pod on a part of a GPU."""
    pod = {"name": name, "state": "running", "node": node, "gpu_groups": [gpu]}
    return {"queue": "a", "pods": [{**pod, "request": {"fraction": milli, "cpu": 1}}]}


def test_of_shared_gpus_the_freest_single_one_is_told() -> None:
    both = share("x", 0.8, "g0"), share("y", 0.7, "g1")

    assert why({"n0": {**NODE, "max_pods": 9}}, {"fraction": 0.5, "cpu": 1}, *both) == (
        NotEnoughOnNode("gpu", 500, 300, "n0")
    )
    assert why({"n0": {**NODE, "max_pods": 9}}, {"gpus": 1, "cpu": 1}, *both) == (
        NotEnoughOnNode("gpu", 1000, 0, "n0")
    )
    assert why({"n0": {**NODE, "max_pods": 9}}, {"gpu_memory": "8000MiB", "cpu": 1}, *both) == (
        NotEnoughOnNode("gpu_memory", 8000, 4800, "n0")
    )
    assert why({"n0": {**NODE, "max_pods": 9}}, {"fraction": 0.3, "devices": 2, "cpu": 1}, *both) == (
        NotEnoughOnNode("devices", 2, 1, "n0", "0.3 GPU")
    )  # fmt: skip


def test_a_free_gpu_counts_beside_one_with_room_for_a_part() -> None:
    node, request = {**NODE, "max_pods": 9}, {"fraction": 0.4, "devices": 3, "cpu": 1}
    nodes = {"n0": {**node, "gpus": 3}}

    assert why(nodes, request, share("x", 0.8, "g0"), share("y", 0.6, "g1")) == (
        NotEnoughOnNode("devices", 3, 2, "n0", "0.4 GPU")
    )


def test_the_node_that_serves_most_of_the_request_is_named() -> None:
    """n0 lacks CPU and GPU, n1 the GPU alone."""
    held = on("n0", {"gpus": 2, "cpu": 8}), on("n1", {"gpus": 2, "cpu": 1})

    assert why({"n0": NODE, "n1": NODE}, {"gpus": 1, "cpu": 2}, *held) == (
        NotEnoughOnNode("gpu", 1000, 0, "n1")
    )


def test_of_equal_nodes_that_with_more_free_is_named_and_then_the_first() -> None:
    nodes = {"n0": {**NODE, "gpus": 4}, "n1": {**NODE, "gpus": 4}, "n2": {**NODE, "gpus": 4}}
    ask = {"gpus": 4, "cpu": 1}

    def nearest(*held: tuple[int, int]) -> str:
        groups = [on(f"n{n}", {"gpus": g, "cpu": c}) for n, (g, c) in enumerate(held)]
        found = why(nodes, ask, *groups)
        assert isinstance(found, NotEnoughOnNode)
        return found.node

    assert nearest((3, 1), (2, 5), (3, 1)) == "n1"
    assert nearest((3, 5), (3, 4), (3, 1)) == "n2"
    assert nearest((3, 1), (3, 1), (3, 1)) == "n0"


def test_what_rules_out_most_nodes_is_told_with_how_many() -> None:
    label = {"rules": {"node_affinity": {"label": "kind", "values": ["x"]}}}
    taint = {"taints": [{"key": "t"}]}
    here = {"labels": {"kind": "x"}}
    nodes = {"n0": {**NODE, **taint, **here}, "n1": NODE, "n2": NODE}

    assert why(nodes, {}, **label) == NoMatchingNode("none has the label kind=x", 2, 3)
    assert why({}, {}) == NoMatchingNode("there is none")


def test_memory_that_is_known_nowhere_it_may_be_is_unknown_but_a_taint_of_more_nodes_comes_first() -> (
    None
):
    unknown = {**NODE, "gpu_memory_mib": None}
    tainted = {**NODE, "taints": [{"key": "t"}]}

    assert why({"n0": unknown, "n1": unknown, "n2": tainted}, {"gpu_memory": "1GiB"}) == (
        GpuMemoryUnknown()
    )
    assert why({"n0": unknown, "n1": tainted, "n2": tainted}, {"gpu_memory": "1GiB"}) == (
        NoMatchingNode("the taint t is not tolerated", 2, 3)
    )


def test_beside_slices_in_the_old_style_the_node_is_ruled_out_for_slices_only() -> None:
    node = {**NODE, "gpus": 0, "mig": {"1g.10gb": 2}, "mig_strategy": "mixed"}
    old = on("n0", {"mig": {"1g.10gb": 1}, "cpu": 1}, legacy_mig=True)

    assert why({"n0": node}, {"mig": {"1g.10gb": 1}, "cpu": 1}, old) == (
        NoMatchingNode("pods in the old MIG style run there", 1, 1)
    )
    assert why({"n0": node}, {"cpu": 8}, old) == NotEnoughOnNode("cpu", 8000, 7000, "n0")


def test_a_rule_about_other_pods_is_told_where_there_is_room() -> None:
    node = {"n0": {**NODE, "labels": {"host": "n0"}}}
    term = {"match_labels": {"app": "x"}, "topology_key": "host"}
    there = on("n0", {"cpu": 1}, labels={"app": "x"})
    shy = on("n0", {"cpu": 1}, pod_anti_affinity=term)

    def told(*others: Any, **rules: Any) -> Reason | None:
        return why(node, {"cpu": 1}, *others, rules=rules)

    assert told(pod_affinity=term) == AffinityUnmet(anti=False, topology_key="host")
    assert told(there, pod_anti_affinity=term) == AffinityUnmet(anti=True, topology_key="host")
    assert told(shy, labels={"app": "x"}) == AffinityUnmet(anti=True, topology_key="node")


def test_a_wish_about_company_is_not_told_as_a_rule() -> None:
    node = {"n0": {**NODE, "labels": {"host": "n0"}}}
    term = {"match_labels": {"app": "x"}, "topology_key": "host"}
    rules = {"pod_affinity": [{**term, "weight": 1}], "pod_anti_affinity": term}
    there = on("n0", {"cpu": 1}, labels={"app": "x"})

    assert why(node, {"cpu": 1}, there, rules=rules) == (
        AffinityUnmet(anti=True, topology_key="host")
    )


def test_a_claim_that_is_taken_elsewhere_is_told() -> None:
    claim: dict[str, Any] = {
        "namespace": "default",
        "queue": None,
        "device_class": "nic",
        "count": 1,
        "reserved_for": [],
        "foreign_consumers": 0,
    }
    claims = {
        "mine": {**claim, "allocation": None},
        "old": {
            **claim,
            "allocation": {"node": "n0", "devices": ["nic/0"]},
            "foreign_consumers": 1,
        },
    }
    slices = [{"node": "n0", "device_class": "nic", "count": 1}]

    found = why(
        {"n0": NODE},
        {"cpu": 1},
        rules={"resource_claims": ["mine"]},
        resource_claims=claims,
        resource_slices=slices,
    )

    assert isinstance(found, ClaimUnusable)
    assert found.claim == "mine"


def test_of_gpus_of_unlike_size_the_largest_is_offered() -> None:
    devices = [
        {"id": f"g{n}", "index": n, "memory_mib": size} for n, size in enumerate((16_000, 80_000))
    ]
    node = {**NODE, "devices": devices}

    assert why({"n0": node}, {"gpu_memory": "90000MiB"}) == NeverFits("gpu_memory", 90_000, 80_000)
