"""The same wheel in Notebook 7, which has no status bar and no launcher."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Lab, Pictures
from tests.browser.screen import Screen

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]


def test_notebook_7_grants_shows_and_releases(screen: Screen, lab: Lab, keep: Pictures) -> None:
    path = lab.notebook("seven.ipynb", "%load_ext kai_jupyter", "%gpu 0.25")
    screen.open(path, front="notebooks")
    screen.run(0)
    screen.run(1)
    expect(screen.card).to_contain_text("Granted")
    expect(screen.page.locator(".jp-Kai-Chip")).to_contain_text("0.25")
    keep("notebook-7")
    assert screen.violations(".jp-OutputArea .jp-Kai-Card") == []
    screen.card.get_by_role("button", name="Release").click()
    expect(screen.card).to_contain_text("Released")
