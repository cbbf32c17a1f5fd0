"""The tour as a newcomer takes it: Shift+Enter from the first cell to the last, in a fresh JupyterLab.

What the cells compute is the business of `tests/notebooks`; here it is what a person sees.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Lab, Pictures
from tests.browser.screen import Screen
from tools.lab import TOUR
from tools.progress import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

CARD = ".jp-Kai-Card"
NEWS_SETTING = "lab/api/settings/@jupyterlab/apputils-extension:notification"


class Tour:
    """The tour in the page; its code cells are named by words that only one of them holds."""

    def __init__(self, screen: Screen, lab: Lab) -> None:
        self._screen = screen
        shutil.copy(ROOT / TOUR, lab.work / "tour.ipynb")
        cells = json.loads((ROOT / TOUR).read_text())["cells"]
        self._sources = ["".join(cell["source"]) for cell in cells]
        self._code = {index for index, cell in enumerate(cells) if cell["cell_type"] == "code"}
        self._next = 0
        screen.open("tour.ipynb")
        screen.cell(0).click()

    def upto(self, words: str) -> Locator:
        """Press Shift+Enter until the cell with these words has ended; return what is below it."""
        last = self._find(words)
        while self._next <= last:
            self._screen.page.keyboard.press("Shift+Enter")
            if self._next in self._code:
                self._screen.ended(self._next)
            self._next += 1
        return self.below(words)

    def below(self, words: str) -> Locator:
        """Return what is below the cell with these words, scrolled to."""
        return self._screen.below(self._find(words))

    def errors(self) -> list[str]:
        """Return the names of the errors that cells ended in."""
        return [error for index in sorted(self._code) for error in self._screen.errors(index)]

    def is_over(self) -> bool:
        """Tell whether every cell has run."""
        return self._next == len(self._sources)

    def _find(self, words: str) -> int:
        (found,) = [index for index in self._code if re.search(words, self._sources[index])]
        return found


def test_the_tour_tells_its_story(screen: Screen, lab: Lab, keep: Pictures) -> None:
    tour = Tour(screen, lab)
    expect(tour.upto("^%gpu$").locator(CARD)).to_contain_text("Ask for a GPU share")
    granted = tour.upto("^%gpu 0.5 --wait").locator(CARD)
    expect(granted).to_contain_text("Granted")
    expect(granted).to_contain_text("simulated")
    expect(screen.page.locator(".jp-Kai-Chip")).to_contain_text("0.5")
    keep("tour-granted")

    expect(tour.upto("--name darts").locator(CARD)).to_contain_text("Result ready")
    expect(tour.upto("pi is about")).to_contain_text("pi is about 3.1")
    expect(tour.upto("--name patient").locator(CARD)).to_contain_text("3 of 4 workers fit")
    keep("tour-waiting")
    expect(tour.upto("^%gang why")).to_contain_text("0.5 GPU")
    expect(tour.upto("^%gpu release")).to_contain_text("thanks for waiting")
    expect(tour.below("--name patient").locator(CARD)).to_contain_text("Result ready")

    endless = tour.upto("--name endless").locator(CARD)
    expect(endless).to_contain_text("Running")
    tour.upto("^%gang stop")
    expect(tour.below("--name endless").locator(CARD)).to_contain_text("Cancelled")
    for name in ("darts", "patient", "endless"):
        expect(tour.upto("^%gang ls")).to_contain_text(name)
    keep("tour-end")
    assert tour.is_over()
    assert tour.errors() == []
    assert screen.violations("#kai-gpu-panel", ".jp-Notebook .jp-OutputArea") == []


def test_jupyterlab_asks_nothing_about_news(screen: Screen, lab: Lab) -> None:
    """The first minute belongs to the tour: no toast with a question in front of it."""
    settings = json.loads(lab.server.get(NEWS_SETTING))["schema"]["properties"]
    assert settings["fetchNews"]["default"] == "false"
    assert settings["checkForUpdates"]["default"] is False
