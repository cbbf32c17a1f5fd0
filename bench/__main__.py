"""`python -m bench [--only GROUP] [--case NAME] [--json FILE]`, `python -m bench compare A B`, `… bench cluster`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.cases import GROUPS
from bench.measure import WrongOutcome, as_json, measure


def main(arguments: list[str]) -> int:
    """Run the benchmarks or compare two files; return the exit status."""
    if arguments[:1] == ["compare"]:
        return compare(Path(arguments[1]), Path(arguments[2]))
    if arguments[:1] == ["cluster"]:
        from bench.cluster.table import main as on_a_cluster  # its needs are those of the tests

        return on_a_cluster(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(GROUPS), help="run one group")
    parser.add_argument("--case", default="", help="run cases whose name begins so")
    parser.add_argument("--json", type=Path, help="write the results to a file")
    options = parser.parse_args(arguments)
    results: list[dict[str, object]] = []
    status = 0
    print(
        f"{'case':32} {'cold ms: min':>12} {'median':>9} {'max':>9} {'cpu':>9} {'warm':>9}  outcome"
    )
    for group in [options.only] if options.only else GROUPS:
        for case in GROUPS[group]():
            if not case.name.startswith(options.case):
                continue
            try:
                result = measure(case)
            except WrongOutcome as wrong:
                print(f"VOID  {wrong}", flush=True)
                status = 1
                continue
            results.append({"group": group, **as_json(result)})
            ms = result.ms
            outcome = " ".join(f"{count} {kind}" for kind, count in result.outcome.items() if count)
            print(
                f"{case.name:32} {ms['min']:12.2f} {ms['median']:9.2f} {ms['max']:9.2f}"
                f" {result.cpu_ms['median']:9.2f}"
                f" {result.warm_ms['median']:9.2f}  {outcome}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return status


def compare(before: Path, after: Path) -> int:
    """Print the median of each case in two files, and their ratio."""
    old = {row["name"]: row for row in json.loads(before.read_text())}
    for row in json.loads(after.read_text()):
        if row["name"] in old:
            was, now = old[row["name"]]["ms"]["median"], row["ms"]["median"]
            print(f"{row['name']:32} {was:9.2f} -> {now:9.2f} ms  x{was / now if now else 0:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
