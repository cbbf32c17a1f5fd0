"""The cells of companions between a notebook and its pod: kept in memory, for as long as this process leads.

Rules: 1. An id is one cell: asked for or told of again, nothing happens twice. 2. Nothing is lost with this process:
the notebook asks again at the next one, and the companion tells again what it told.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field

from scheduler_service.wire.companion import (
    OVER,
    CellAsk,
    CellOrders,
    CellOutput,
    CellReport,
    CellState,
    CellView,
)
from scheduler_service.wire.pod_group import ResultItem
from scheduler_service.wire.runner import Failure

MOST_KEPT = 100
"""Cells of one companion that are remembered."""
MOST_OUTPUT = 2_000
MOST_COMPANIONS = 2_000


@dataclass(slots=True)
class Cell:
    """One cell and what is known of it."""

    ask: CellAsk
    state: CellState = "waiting"
    output: deque[CellOutput] = field(default_factory=lambda: deque(maxlen=MOST_OUTPUT))
    failure: Failure | None = None
    results: tuple[ResultItem, ...] = ()
    text: str = ""
    interrupts: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in OVER

    @property
    def next(self) -> int:
        """The number of the piece of output that comes next."""
        return self.output[-1].seq + 1 if self.output else 0

    def take(self, report: CellReport) -> None:
        """Learn what the companion says; old news is ignored."""
        self.output.extend(piece for piece in report.output if piece.seq >= self.next)
        if not self.is_over:
            self.state, self.text = report.state, report.text
            self.failure, self.results = report.failure, report.results

    def view(self, incarnation: str, after: int) -> CellView:
        """Return how it stands, with what it wrote from `after` on."""
        return CellView(
            id=self.ask.id,
            state=self.state,
            incarnation=incarnation,
            output=tuple(piece for piece in self.output if piece.seq >= after),
            next=max(after, self.next),
            failure=self.failure,
            results=self.results,
            text=self.text,
        )


class Cells:
    """The cells of all companions, by incarnation and id."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, OrderedDict[str, Cell]] = OrderedDict()
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def put(self, incarnation: str, ask: CellAsk) -> Cell:
        """Return the cell of that id, new or known."""
        cells = self._of.setdefault(incarnation, OrderedDict())
        self._of.move_to_end(incarnation)
        if ask.id not in cells:
            cells[ask.id] = Cell(ask)
            self._forget(cells)
            self._tell(incarnation)
        return cells[ask.id]

    def _forget(self, cells: OrderedDict[str, Cell]) -> None:
        for name in [name for name, cell in cells.items() if cell.is_over][:-MOST_KEPT]:
            del cells[name]
        while len(self._of) > MOST_COMPANIONS:
            gone, _ = self._of.popitem(last=False)
            self._news.pop(gone, None)

    def find(self, incarnation: str, name: str) -> Cell | None:
        """Return a cell that is known."""
        cells = self._of.get(incarnation)
        return None if cells is None else cells.get(name)

    def take(self, incarnation: str, report: CellReport) -> None:
        """Learn what a companion says of a cell; of one that is not known nobody waits to hear."""
        cell = self.find(incarnation, report.id)
        if cell is not None:
            cell.take(report)
            self._tell(incarnation)

    def interrupt(self, incarnation: str, cell: Cell) -> None:
        """Have a cell interrupted; one that has not begun ends at once."""
        if cell.state == "waiting":
            cell.state = "interrupted"
        elif not cell.is_over:
            cell.interrupts += 1
        self._tell(incarnation)

    def orders(self, incarnation: str, busy: str, interrupts: int) -> CellOrders | None:
        """Return what there is to do, None for nothing."""
        if busy:
            cell = self.find(incarnation, busy)
            count = 0 if cell is None else cell.interrupts
            return CellOrders(interrupts=count) if count > interrupts else None
        for cell in self._of.get(incarnation, OrderedDict()).values():
            if not cell.is_over:  # also one that runs: a companion that asks does not know of it
                return CellOrders(cell=cell.ask)
        return None

    async def news(self, incarnation: str, wait_s: float) -> bool:
        """Wait until something changes of a companion's cells; False when nothing did."""
        try:
            async with asyncio.timeout(wait_s):
                await self._news[incarnation].wait()
        except TimeoutError:
            if incarnation not in self._of:  # nobody but the companion waits
                self._news.pop(incarnation, None)
            return False
        return True

    def _tell(self, incarnation: str) -> None:
        """Wake who waits; who comes later waits for the next news."""
        self._news.pop(incarnation, asyncio.Event()).set()
