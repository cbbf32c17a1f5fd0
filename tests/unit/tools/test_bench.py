"""The benchmark runs, says what came out, and two runs can be compared."""

import json

from bench.__main__ import main
from bench.cases import GROUPS

NAMES = [
    *("allocate/10x50", "allocate/50x200", "allocate/100x500", "reclaim/10x50", "reclaim/50x200"),
    *("preempt/10x50", "preempt/50x200", "consolidate/10x50", "consolidate/50x200"),
    *("cycle/10x50", "cycle/50x200", "cycle/100x500", "many_queues/50x200x20", "gangs/50x100x4"),
]


def test_the_peers_shapes_are_there_under_their_names():
    sizes = (10, 50, 100, 200, 500)
    huge = [f"reclaim_huge_gang/{size}" for size in (*sizes, 1000)]
    many = [f"reclaim_many/{size}" for size in sizes]

    assert [case.name for case in GROUPS["kai"]()] == [*NAMES, *huge, *many]


def test_a_run_is_written_and_compared(tmp_path, capsys):
    file = tmp_path / "one.json"

    assert main(["--only", "kai", "--case", "allocate/10x50", "--json", str(file)]) == 0
    assert main(["compare", str(file), str(file)]) == 0

    (row,) = json.loads(file.read_text())
    assert {"name", "nodes", "pods", "ms", "outcome", "counts", "peak_mib"} <= row.keys()
    assert (row["name"], row["nodes"], row["pods"]) == ("allocate/10x50", 10, 50)
    assert row["ms"].keys() == {"min", "median", "max"}
    assert row["outcome"] == {"bound": 50, "evicted": 0, "pipelined": 0}
    assert "x1.00" in capsys.readouterr().out
