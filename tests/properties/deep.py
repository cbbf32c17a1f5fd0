"""`python -m tests.properties.deep --seeds 0:2000`: the long form of the property tests.

Every seed is one random cluster: allocate, each action that makes room and the cycle against the
slow reference (once more where groups protect their minimum only, or name topology levels), purity,
and a life of many cycles under three settings, every law after every plan. Seeds are independent,
so a run that was cut goes on from the seed that it named last, and two can share the work. Ends
with 1 if anything was found; each finding names its seed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec

from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.policy import Policy
from tests.properties.clusters import NOW_MS, Cluster, cluster, level_cluster, semi_cluster
from tests.properties.cycles import following, run, stolen, unlike
from tests.properties.exactness import allocate_differences, planned
from tests.properties.laws import breaches
from tests.properties.reserving import reserving_breaches, reserving_cluster
from tests.properties.rich import rich_breaches, rich_cluster
from tests.properties.victims import all_differences
from tests.reference.nodes import Ambiguous

SIZES = 8
RICH_CYCLES = 6
REPORT_EVERY = 50


def main(arguments: list[str]) -> int:
    """Run the seeds; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.deep", description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="from:to, the end left out")
    parser.add_argument("--cycles", type=int, default=50, help="cycles of each cluster's life")
    options = parser.parse_args(arguments)
    first, end = (int(part) for part in options.seeds.split(":"))
    counts: Counter[str] = Counter()
    for seed in range(first, end):
        for line in findings(seed, options.cycles, counts):
            counts["findings"] += 1
            _say(f"seed {seed}: {line}")
        if (seed + 1 - first) % REPORT_EVERY == 0:
            _say(f"up to seed {seed + 1}: {dict(counts)}")
    _say(f"{end - first} clusters, {dict(counts)}")
    return 1 if counts["findings"] else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def findings(seed: int, cycles: int, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with one cluster."""
    found = cluster(seed, 1 + seed % SIZES)
    yield from _unlike_reference(found, counts)
    for name, kind in (("semi", semi_cluster), ("levels", level_cluster)):
        other = kind(seed, 1 + seed % SIZES)
        yield from (f"{name}: {line}" for line in _unlike_reference(other, counts))
    yield from unlike(found, seed)
    for policy in (found.policy, _holding(found.policy)):
        history = run(replace(found, policy=policy))
        counts["cycles"] += len(history.plans)
        yield from history.lines
        if policy.hold_ms:
            yield from stolen(found, history.plans)
            if not history.is_at_rest:
                yield "does not come to rest"
    rich = rich_cluster(seed, 1 + seed % SIZES)
    yield from (f"rich: {line}" for line in unlike(rich, seed))
    for policy in (rich.policy, _holding(rich.policy)):
        yield from (f"rich: {line}" for line in _rich_life(replace(rich, policy=policy), counts))
    yield from (f"kept: {line}" for line in _keeping(seed, counts))
    yield from _life(replace(found, policy=_holding(found.policy)), cycles, counts)


def _unlike_reference(found: Cluster, counts: Counter[str]) -> Iterator[str]:
    """Each action alone and the cycle, against the slow reference."""
    try:
        yield from allocate_differences(found)
    except Ambiguous:
        counts["free choices"] += 1
    yield from (f"room: {line}" for line in all_differences(found, counts))


def _keeping(seed: int, counts: Counter[str]) -> Iterator[str]:
    """Room that is kept for those who wait: one plan, and the laws of that."""
    found = reserving_cluster(seed, 1 + seed % SIZES)
    made = planned(found.snapshot, found.policy)
    counts["cycles"] += 1
    yield from breaches(found, made)
    yield from reserving_breaches(found, made)


def _rich_life(now: Cluster, counts: Counter[str]) -> Iterator[str]:
    for _ in range(RICH_CYCLES):
        made = planned(now.snapshot, now.policy)
        counts["cycles"] += 1
        yield from breaches(now, made)
        yield from rich_breaches(now, made)
        now = following(now, made)


def _holding(policy: Policy) -> Policy:
    return msgspec.structs.replace(policy, hold_ms=30_000)


def _life(now: Cluster, cycles: int, counts: Counter[str]) -> Iterator[str]:
    """Let pods end, fail and come back at random while the cluster is planned."""
    random = Random(now.seed)
    for _ in range(cycles):
        made = planned(now.snapshot, now.policy)
        counts["cycles"] += 1
        yield from breaches(now, made)
        now = following(now, made)
        pods = tuple(_lived(pod, random) for pod in now.snapshot.pods)
        now = replace(now, snapshot=msgspec.structs.replace(now.snapshot, pods=pods))


def _lived(pod: Pod, random: Random) -> Pod:
    """Return the pod a moment later: some that run end or are deleted, some that ended return."""
    chance = random.random()
    if pod.state is PodState.RUNNING and chance < 0.06:
        return msgspec.structs.replace(pod, state=PodState.RELEASING, deleted_ms=NOW_MS)
    if pod.state in {PodState.RUNNING, PodState.RELEASING} and chance > 0.97:
        return msgspec.structs.replace(
            pod, state=PodState.FAILED, node=None, devices=(), deleted_ms=None
        )
    if pod.state is PodState.FAILED and chance < 0.3:
        return msgspec.structs.replace(pod, state=PodState.PENDING)
    return pod


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
