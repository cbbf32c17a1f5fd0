"""The scene of the README's picture: a lease, a gang that trains, a request that waits. It must go on being true."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Lab, Pictures
from tests.browser.screen import Screen

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

TRAINING = """%%gang -n 4 --gpu 0.25 --name digits
import itertools, time
from kai_jupyter import report

for step in itertools.count(1):
    loss = 2.3 / (1 + step / 400)
    report(step, 1000, loss=loss)
    print(f"step {step}: loss {loss:.3f}")
    time.sleep(0.2)"""

LOSS = re.compile(r"\d\.\d{3}")


def test_the_picture_of_the_readme(screen: Screen, lab: Lab, keep: Pictures) -> None:
    """`docs/images/kai-jupyter.png` is artifacts/readme.png of this test."""
    screen.page.set_viewport_size({"width": 1480, "height": 1180})
    screen.open(lab.notebook("digits.ipynb", "%load_ext kai_jupyter", "%gpu 0.5", TRAINING))
    screen.page.add_style_tag(content=".Toastify { display: none }")
    screen.theme("JupyterLab Light")
    panel = screen.panel
    screen.run(0)
    screen.run(1)
    expect(screen.card).to_contain_text("Granted")
    lab.kai(
        "submit",
        "-d",
        "--gpu",
        "0.5",
        "--run-time",
        "20m",
        "--name",
        "tokens",
        "--",
        "sleep",
        "900",
    )
    screen.start(2)
    expect(screen.card.locator(".jp-Kai-Ranks tbody tr")).to_have_count(4)
    expect(screen.card.get_by_role("log")).to_contain_text(LOSS)
    lab.kai("submit", "-d", "--gpu", "0.5", "--name", "scores", "--", "sleep", "900")
    expect(panel).to_contain_text("Position 1 of 1")
    expect(screen.card.locator(".jp-Kai-Ranks")).to_contain_text(LOSS)
    screen.page.locator(".jp-Notebook .jp-Cell").first.scroll_into_view_if_needed()
    keep("readme")
