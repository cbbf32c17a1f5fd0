"""The runner is killed between any two steps of a start: every pod begins once, and the next runner sees it through.

Each worker writes down by itself that it began. The table of docs/adr/0017 has a row for each of these.
"""

from __future__ import annotations

import pytest

from tests.process.conftest import FAIL_SAFE_S, RunnerWorld, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

WORKERS = 3
MEETS = """
echo $KAI_POD >> begun
while [ "$(sort -u begun | wc -l)" -lt $WORLD_SIZE ]; do sleep 0.05; done
"""
PLACES = [
    ("pod_folder:PodFolder.make", 2, "after"),
    ("preparation:Preparation.write_plan", 2, "after"),
    *(("supervision:spawn", number, "after") for number in (1, 2, 3)),
    ("gate:say_go", 1, "before"),
    *(("gate:say_go", number, "after") for number in (1, 2, 3)),
    ("connection:Connection.report", 1, "before"),
    *(("connection:Connection.report", number, "after") for number in (1, 3, 4, 6)),
    *(("pod_folder:PodFolder.remove", number, "after") for number in (1, 3)),
]


@pytest.mark.parametrize(("step", "number", "moment"), PLACES)
def test_a_gang_begins_once(world: RunnerWorld, step: str, number: int, moment: str) -> None:
    gang = world.gang("g", WORKERS, "sh", "-c", MEETS)
    runner = world.start_runner(step, str(number), moment)
    world.service.grant(*gang)
    assert runner.wait(FAIL_SAFE_S) == -9
    world.start_runner()
    for order in gang:
        assert world.service.wait_ended(order.incarnation).exit_code == 0
    begun = (world.workdir / "begun").read_text().split()
    assert sorted(begun) == sorted(order.pod for order in gang)
    assert world.remains() == []
    wait_until("the folders to go", lambda: not any(world.folder("g-0").parent.iterdir()))


MEETS_A_TAKEN_PORT_ONCE = """
echo $KAI_POD $MASTER_PORT >> begun
if [ "$(grep -c "^$KAI_POD " begun)" -gt 1 ]; then exit 0; fi
if [ $RANK = 1 ]; then
  while [ "$(wc -l < begun)" -lt $WORLD_SIZE ]; do sleep 0.05; done
  echo "OSError: [Errno 98] Address already in use" >&2; exit 1
fi
exec sleep 1000
"""
RETRY_PLACES = [
    ("pod_folder:PodFolder.mark_retry", 1, "before"),
    *(("pod_folder:PodFolder.mark_retry", number, "after") for number in (1, 2, 4)),
    *(("pod_folder:PodFolder.forget_attempt", number, "after") for number in (1, 3)),
    *(("supervision:spawn", number, "after") for number in (4, 6)),
    *(("gate:say_go", number, "after") for number in (4, 5, 6)),
    ("connection:Connection.report", 5, "before"),
]


@pytest.mark.parametrize(("step", "number", "moment"), RETRY_PLACES)
def test_a_second_start_is_made_once(
    world: RunnerWorld, step: str, number: int, moment: str
) -> None:
    """A port was taken, and the runner is killed while the gang starts again: on the same new ports, once."""
    gang = world.gang("g", WORKERS, "sh", "-c", MEETS_A_TAKEN_PORT_ONCE)
    runner = world.start_runner(step, str(number), moment)
    world.service.grant(*gang)
    assert runner.wait(FAIL_SAFE_S) == -9
    world.start_runner()
    for order in gang:
        assert world.service.wait_ended(order.incarnation).exit_code == 0
    begun = [line.split() for line in (world.workdir / "begun").read_text().splitlines()]
    assert sorted(pod for pod, _ in begun) == sorted(2 * [order.pod for order in gang])
    first, second = begun[:WORKERS], begun[WORKERS:]
    assert (len({port for _, port in first}), len({port for _, port in second})) == (1, 1)
    assert world.remains() == []
