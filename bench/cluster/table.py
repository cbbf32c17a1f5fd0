"""`python -m bench cluster [--rows NAME,…] [--json FILE]`: the end-to-end table, row by row."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import bed, rows
from bench.cluster.load import Load, NotSeen
from bench.cluster.rows import Bench, Figures, Row
from tests.cluster.testbed.binaries import Missing
from tests.cluster.testbed.cluster import Cluster

EMPTY: dict[str, Row] = {"limit": rows.limit}
"""Rows of a cluster in which nothing of ours runs."""
SERVED: dict[str, Row] = {
    "gang": rows.gang,
    "fill": rows.fill,
    "reclaim_one": rows.reclaim_one,
    "reclaim_gang": rows.reclaim_gang,
    "never_fits": rows.never_fits,
    "memory": rows.memory,
}
LARGE: dict[str, Row] = {"large": rows.large}
CLEARED = frozenset({"fill", "large"})
"""Rows that begin on an empty cluster."""
ALL = (*EMPTY, *SERVED, *LARGE)


def main(arguments: list[str]) -> int:
    """Measure, print and perhaps write the rows; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench cluster", description=__doc__)
    parser.add_argument("--rows", default=",".join(ALL), help=f"of {', '.join(ALL)}")
    parser.add_argument("--json", type=Path, help="write the results to a file")
    options = parser.parse_args(arguments)
    chosen = options.rows.split(",")
    if unknown := set(chosen) - set(ALL):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    try:
        with bed.kubernetes() as cluster:
            results = asyncio.run(_measure(cluster, chosen))
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return int(any("void" in figures for figures in results.values()))


async def _measure(cluster: Cluster, chosen: list[str]) -> dict[str, Figures]:
    cluster.nodes.add("node", count=rows.NODES, gpus=rows.GPUS)
    results: dict[str, Figures] = {}
    async with Load.of(cluster.control_plane.login()) as load:
        bench = Bench(cluster, load)
        await _take(bench, EMPTY, chosen, results)
        bed.queue(cluster, rows.ROOMY, gpus=0)
        bed.queue(cluster, rows.OWNER, gpus=rows.ALL / 2)
        with ExitStack() as ending:
            if set(chosen) & SERVED.keys():
                bench.processes = ending.enter_context(bed.ours(cluster))
            await _take(bench, SERVED, chosen, results)
        await _take(bench, LARGE, chosen, results)
    return results


async def _take(
    bench: Bench, group: dict[str, Row], chosen: list[str], results: dict[str, Figures]
) -> None:
    for name in (name for name in group if name in chosen):
        if name in CLEARED:
            rows.clear(bench)
        await asyncio.sleep(rows.SETTLE_S)
        begun = time.monotonic()
        try:
            results[name] = await group[name](bench)
        except NotSeen as missing:
            results[name] = {"void": str(missing)}
        print(f"{name:14} {json.dumps(results[name])}  ({bed.elapsed(begun)} s)", flush=True)
