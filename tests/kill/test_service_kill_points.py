"""The service is killed around each of its durable writes for one gang: the gang runs once, and is told once.

The writes: 1 the request, 2 its grant, 3 the claim, 4 and 5 the starts, 6 and 7 the ends.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from kai_jupyter.client import KaiRequestError, ServiceUnreachable
from scheduler_service.wire.pod_group import PodGroupView, Submit, Work
from scheduler_service.wire.signing import load_or_create_key, sign_work
from tests.fakes.processes import FAIL_SAFE_S, World, until
from tests.kill.conftest import POD, all_over, client, diary_of, serve, told_twice

pytestmark = [pytest.mark.process, pytest.mark.slow]

WRITTEN_NOT_TOLD = ("store.groups:Groups._tell", "before")
TOLD_NOT_ANSWERED = ("store.groups:Groups.put", "after")


def submit(world: World, diary: Path) -> str | None:
    """Return the name of the gang, None where the service was killed before it answered."""
    work = Work(command=(sys.executable, "-S", "-c", POD, str(diary), "0.3"))
    key = load_or_create_key(world.state / "signing.key")
    ask = Submit(
        kind="gang", name="g", gpu="0.5", workers=2, work=work, signature=sign_work(key, work)
    )
    try:
        with client(world) as kai:
            return kai.submit(ask, idempotency_key="once").name
    except (ServiceUnreachable, KaiRequestError, OSError):
        return None


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        *((WRITTEN_NOT_TOLD, number) for number in (1, 2, 3, 5, 7)),
        *((TOLD_NOT_ANSWERED, number) for number in (1, 3, 6)),
    ],
)
def test_a_gang_runs_once(world: World, moment: tuple[str, str], number: int) -> None:
    diary_path = world.state.parent / "diary.jsonl"
    step, when = moment
    service = serve(world, step, str(number), when)
    submit(world, diary_path)
    assert service.wait(FAIL_SAFE_S) == -9
    serve(world)
    assert submit(world, diary_path) == "g"
    finished: list[PodGroupView] = []
    until(lambda: finished.extend(all_over(world) or []) or finished, "the end of all work")
    (view,) = finished
    assert (view.state, told_twice(view)) == ("Succeeded", [])
    said = Counter((line["KAI_POD"], line["what"]) for line in diary_of(diary_path))
    assert said == {(f"g-{rank}", what): 1 for rank in (0, 1) for what in ("begin", "end")}
