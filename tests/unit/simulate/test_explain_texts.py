"""`kai explain GROUP --snapshot FILE`, word for word: why, who is ahead, what would help."""

import pytest

from scheduler_service.simulate import commands

WORLD = """\
id: own-explain-001
suite: own/explain
about: two run, two wait, one of them is urgent
run: {action: cycle, settle_cycles: 1, steady_cycles: 0}
nodes: {n0: {gpus: 2}}
queues: {a: {quota: 0, created: 0}, b: {quota: 2, created: 1}}
pod_groups:
  held-1: {queue: b, gpus: 1, created: 0, running_on: n0}
  held-2: {queue: b, gpus: 1, created: 1, running_on: n0}
  urgent: {queue: b, gpus: 1, priority: 75, created: 2}
  second: {queue: a, gpus: 2, created: 3}
  third: {queue: a, gpus: 3, created: 4}
expect: {}
"""

TEXTS = {
    "urgent": """\
default/urgent-0 gets the next free place on n0.
default/urgent waits.
Position 1 in its queue, 1 over all queues.
allocate: Has a place on n0: starts when pods there have left.
allocate: Needs 1 GPU on one node; n0 has none free.
consolidate: Others are not moved for it: there is too little room in all.
reclaim: Fair share of b is 2 GPUs: 2 GPUs used, 1 GPU wanted.
""",
    "second": """\
default/second waits.
Position 1 in its queue, 2 over all queues.
allocate: Needs 2 GPUs on one node; n0 has none free.
consolidate: Others are not moved for it: there is too little room in all.
reclaim: Fair share of a is 0 GPUs: 0 GPUs used, 2 GPUs wanted.
preempt: Nothing of lower priority in this queue may be stopped.
No change of it and no ending of others that was tried would help.
""",
    "third": """\
default/third waits.
Position 2 in its queue, 3 over all queues.
allocate: Never: needs 3 GPUs on one node; the largest has 2 GPUs.
consolidate: Others are not moved for it: there is too little room in all.
reclaim: Fair share of a is 0 GPUs: 0 GPUs used, 3 GPUs wanted.
preempt: Nothing of lower priority in this queue may be stopped.
Before it: default/second.
No change of it and no ending of others that was tried would help.
""",
    "held-1": "default/held-1 does not wait: nothing of it is pending.\n",
    "held-2": """\
default/held-2 does not wait.
default/held-2-0 leaves n0. Stopped for default/urgent: priority 75 over 50.
""",
}


def plain(out: str) -> str:
    """Return what was printed, a table as `action: why`."""
    lines = []
    for line in out.splitlines():
        if line.startswith("│"):
            action, why = (cell.strip() for cell in line.strip("│").split("│"))
            lines.append(f"{action}: {why}")
        elif not line.startswith(("┏", "┃", "┡", "└")):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("group", TEXTS)
def test_an_explanation_reads_like_this(group, tmp_path, capsys):
    file = tmp_path / "world.yaml"
    file.write_text(WORLD)

    assert commands.explain_snapshot(group, file) == 0

    assert plain(capsys.readouterr().out) == TEXTS[group]
