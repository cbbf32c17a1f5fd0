"""Cells between a notebook and its companion: an id is one cell, and nothing is told twice."""

import asyncio

from scheduler_service.service.cells import MOST_KEPT, Cells
from scheduler_service.wire.companion import CellAsk, CellOutput, CellReport
from scheduler_service.wire.runner import Failure

POD = "pod-uid"


def ask(number: int) -> CellAsk:
    return CellAsk(id=f"{number:032x}", payload_sha256="d", signature="s")


def piece(seq: int, text: str = "") -> CellOutput:
    return CellOutput(seq=seq, stream="stdout", text=text or str(seq))


def report(number: int, state: str = "running", *pieces: CellOutput, **more: object) -> CellReport:
    return CellReport(id=ask(number).id, state=state, output=pieces, **more)  # type: ignore[arg-type]


def test_cells_are_given_one_after_the_other_in_their_order() -> None:
    cells = Cells()
    for number in (2, 1):
        cells.put(POD, ask(number))
    given = cells.orders(POD, "", 0)
    assert given is not None
    assert given.cell == ask(2)
    assert cells.orders(POD, ask(2).id, 0) is None, "who is busy gets no other cell"
    cells.take(POD, report(2, "succeeded"))
    given = cells.orders(POD, "", 0)
    assert given is not None
    assert given.cell == ask(1)
    assert cells.orders("another", "", 0) is None


def test_the_same_id_is_the_same_cell() -> None:
    cells = Cells()
    first = cells.put(POD, ask(1))
    cells.take(POD, report(1, "succeeded"))
    assert cells.put(POD, ask(1)) is first
    assert cells.orders(POD, "", 0) is None


def test_output_that_is_told_again_is_there_once() -> None:
    cells = Cells()
    cell = cells.put(POD, ask(1))
    cells.take(POD, report(1, "running", piece(0), piece(1)))
    cells.take(POD, report(1, "failed", piece(1), piece(2), failure=_failure()))
    cells.take(POD, report(1, "running"))
    view = cell.view(POD, 1)
    assert [one.text for one in view.output] == ["1", "2"]
    assert (view.state, view.next) == ("failed", 3), "old news changes nothing"
    assert view.failure == _failure()


def _failure() -> Failure:
    return Failure(message="no", traceback="")


def test_a_new_leader_goes_on_with_the_numbers_of_the_one_before() -> None:
    cells = Cells()
    cell = cells.put(POD, ask(1))
    cells.take(POD, report(1, "running", piece(70), piece(71)))
    assert [one.seq for one in cell.view(POD, 71).output] == [71]
    assert cell.view(POD, 80).next == 80


def test_an_interrupt_reaches_the_cell_that_runs_and_ends_the_one_that_waits() -> None:
    cells = Cells()
    running, waiting = cells.put(POD, ask(1)), cells.put(POD, ask(2))
    cells.take(POD, report(1))
    for _ in range(2):
        cells.interrupt(POD, running)
    cells.interrupt(POD, waiting)
    orders = cells.orders(POD, ask(1).id, 1)
    assert orders is not None
    assert orders.interrupts == 2
    assert cells.orders(POD, ask(1).id, 2) is None
    assert (running.state, waiting.state) == ("running", "interrupted")


def test_who_waits_hears_of_news_and_of_none() -> None:
    async def story() -> None:
        cells = Cells()
        waiting = asyncio.create_task(cells.news(POD, 60))
        await asyncio.sleep(0)
        cells.put(POD, ask(1))
        assert await waiting
        assert not await cells.news(POD, 0)

    asyncio.run(story())


def test_only_the_last_cells_are_remembered() -> None:
    cells = Cells()
    for number in range(MOST_KEPT + 5):
        cells.put(POD, ask(number))
        cells.take(POD, report(number, "succeeded"))
    cells.put(POD, ask(9999))
    assert cells.find(POD, ask(0).id) is None
    assert cells.find(POD, ask(MOST_KEPT).id) is not None
