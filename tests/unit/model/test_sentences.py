"""Every sentence reads well with the numbers 0, 1 and 2: a person reads it, not a parser."""

import pytest

from scheduler_service.model import leaving, reasons
from scheduler_service.model.reasons import sentence

GPU, GIB = 1000, 1 << 30

SENTENCES = [
    (
        reasons.NotEnoughOnNode("gpu", 2 * GPU, GPU, "n0"),
        "Needs 2 GPUs on one node; n0 has 1 GPU free.",
    ),
    (
        reasons.NotEnoughOnNode("gpu", GPU, 0, "n0"),
        "Needs 1 GPU on one node; n0 has none free.",
    ),
    (
        reasons.NotEnoughOnNode("gpu_memory", 8192, 4096, "n0"),
        "Needs 8 GiB of GPU memory on one GPU; n0 has 4 GiB free.",
    ),
    (
        reasons.NotEnoughOnNode("devices", 2, 1, "n0", "0.5 GPU"),
        "Needs 2 GPUs with 0.5 GPU free each on one node; n0 has 1.",
    ),
    (
        reasons.NotEnoughOnNode("devices", 2, 0, "n0", "8 GiB"),
        "Needs 2 GPUs with 8 GiB free each on one node; n0 has none.",
    ),
    (
        reasons.NotEnoughOnNode("mig", 2, 1, "n0", "1g.5gb"),
        "Needs 2 × 1g.5gb on one node; n0 has 1 free.",
    ),
    (
        reasons.NotEnoughOnNode("pods", 1, 0, "n0"),
        "Needs 1 pod slot on one node; n0 has none free.",
    ),
    (
        reasons.NotEnoughOnNode("memory", 2 * GIB, GIB, "n0"),
        "Needs 2 GiB of memory on one node; n0 has 1 GiB free.",
    ),
    (
        reasons.NeverFits("gpu", 16 * GPU, 8 * GPU),
        "Never: needs 16 GPUs on one node; the largest has 8 GPUs.",
    ),
    (reasons.NeverFits("gpu", GPU, 0), "Never: needs 1 GPU on one node; none has any."),
    (
        reasons.NeverFits("gpu_memory", 81920, 24576),
        "Never: needs 80 GiB of GPU memory on one GPU; the largest has 24 GiB.",
    ),
    (
        reasons.NeverFits("devices", 4, 2, "0.5 GPU"),
        "Never: needs 4 GPUs with 0.5 GPU free each on one node; the largest has 2.",
    ),
    (reasons.GangShort(0, 2), "Room for none of the 2 pods that must start together."),
    (
        reasons.GangShort(1, 2, "workers"),
        "Room for 1 of the 2 pods of workers that must start together.",
    ),
    (reasons.NotReady(0, 1, 1), "Its pod is not there, 1 gated."),
    (reasons.NotReady(0, 2), "None of the 2 pods that start together are there."),
    (reasons.NotReady(1, 2, 1), "1 of the 2 pods that start together is there, 1 gated."),
    (reasons.NotReady(2, 3), "2 of the 3 pods that start together are there."),
    (reasons.NotReady(2, 2), "2 pods there, but too few in one of its sub-groups."),
    (
        reasons.OverLimit("a", "gpu", 0, 0, GPU),
        "Never: queue a is limited to 0 GPUs, 1 GPU wanted.",
    ),
    (
        reasons.FairShareReached("a", "cpu", GPU, 2 * GPU, 500),
        "Fair share of a is 1 CPU: 2 CPUs used, 0.5 CPU wanted.",
    ),
    (
        reasons.TopologyTooSmall("rows", "rack", 1, 0),
        "Topology rows has no room for its pod.",
    ),
    (
        reasons.TopologyTooSmall("rows", "rack", 2, 0),
        "Topology rows has room for none of its 2 pods.",
    ),
    (
        reasons.TopologyNoDomainFits("rows", "x/rack", 1, 0, "r1"),
        "No rack has room for its pod.",
    ),
    (
        reasons.TopologyNoDomainFits("rows", "x/rack", 2, 0, "r1"),
        "No rack holds all 2 pods; none has room for even one.",
    ),
    (
        reasons.TopologyNoDomainFits("rows", "x/rack", 2, 1, "r1"),
        "No rack holds all 2 pods; the best, r1, has room for 1.",
    ),
    (
        reasons.TopologyNoDomainFits("rows", "x/rack", 1, 1, "r2", "r1"),
        "Its others run in rack r1, which has no room for 1 pod more.",
    ),
    (
        reasons.NoMatchingNode("the taint gpu is not tolerated", 2, 3),
        "No node is allowed: the taint gpu is not tolerated (2 of 3).",
    ),
    (
        reasons.NoMatchingNode("they take no new work", 2, 2),
        "No node is allowed: they take no new work.",
    ),
    (
        reasons.NoMatchingNode("The volume claim home is not bound yet.", 2, 3),
        "No node is allowed: The volume claim home is not bound yet (2 of 3).",
    ),
    (
        reasons.ClaimUnusable("nic", "has no queue label"),
        "Claim nic has no queue label.",
    ),
    (
        reasons.NoScenario("consolidate", 1, 1),
        "Moving the one other that may be moved makes no room that it may have.",
    ),
    (
        reasons.NoScenario("reclaim", 2, 1),
        "Stopping any of the 2 others that may be stopped makes no room that it may have.",
    ),
    (reasons.Behind(1), "1 group before it took the free room."),
    (reasons.Behind(2), "2 groups before it took the free room."),
    (reasons.HeldForOther(1), "Free room is kept for 1 pod that it was freed for."),
    (reasons.HeldForOther(2), "Free room is kept for 2 pods that it was freed for."),
    (reasons.KeptForOther("lab/wide"), "Free room is kept for one that waits longer."),
    (
        reasons.KeptForOther("lab/wide", 600_000),
        "Free room is kept for one that waits longer; what ends within 10 min may use it.",
    ),
    (reasons.RoomKept("n0", 1), "What gets free on n0 is kept for it."),
    (
        reasons.RoomKept("n0", 3, 90_000),
        "What gets free on n0 and 2 more is kept for it; enough in 90 s.",
    ),
    (reasons.BackingOff(1, 8000), "Starting failed once; next try in 8 s."),
    (reasons.BackingOff(2, 200_000), "Starting failed twice; next try in 4 min."),
    (reasons.BackingOff(3, 0), "Starting failed 3 times; next try in 0 s."),
    (
        reasons.WaitsForRelease("n0", 1),
        "Has a place on n0: starts when pods there have left.",
    ),
    (leaving.StaleGang(1, 2, 60_000), "Stopped: only 1 of 2 pods for 60 s."),
    (
        leaving.StaleGang(7, 4, 60_000),
        "Stopped: one of its sub-groups had too few pods for 60 s.",
    ),
]


@pytest.mark.parametrize(("reason", "text"), SENTENCES, ids=[text for _, text in SENTENCES])
def test_a_reason_reads_well(reason: reasons.Reason, text: str) -> None:
    assert sentence(reason) == text
