"""The main job in JupyterLab: ask, wait, be granted, run gangs, cancel; seen and used in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Lab, Pictures
from tests.browser.screen import NOTEBOOK, THEMES, Screen

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

LOAD = "%load_ext kai_jupyter"
TRAINING = """%%gang -n 4 --gpu 0.25 --out loss --name sweep-lr
import itertools, os, time
from kai_jupyter import report
for step in itertools.count():
    loss = 1 / (step + 1)
    print(f'rank {os.environ["RANK"]} step {step} loss {loss:.3f}')
    report(step, 1000, loss=loss)
    if os.path.exists('finish'):
        break
    time.sleep(0.1)
"""
BROKEN = """%%gang -n 4 --gpu 0.25 --name broken
import os, time
if os.environ['RANK'] == '2':
    raise ValueError('shapes do not match')
time.sleep(60)
"""


def test_an_empty_panel_teaches_and_forecasts_before_asking(screen: Screen, keep: Pictures) -> None:
    screen.open()
    panel = screen.panel
    expect(panel).to_contain_text("You hold no GPU.")
    expect(panel).to_contain_text("%gpu 0.5")
    expect(panel).to_contain_text("simulated")
    panel.get_by_role("button", name="Ask for a GPU share").last.click()
    expect(panel.locator(".jp-Kai-Choice").nth(1)).to_contain_text("now")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"panel-asking-{theme.split()[-1].lower()}")
        assert screen.violations("#kai-gpu-panel") == []


def test_a_notebook_waits_with_a_banner_and_is_granted(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    lab.fill()
    screen.open(lab.notebook("train.ipynb", LOAD, "%gpu 0.5", "1 + 1"))
    panel = screen.panel
    screen.run(0)
    screen.run(1)
    card, banner = screen.card, screen.page.locator(".jp-Kai-Banner")
    expect(card).to_contain_text("Position 1")
    expect(banner).to_contain_text("Position 1")
    expect(screen.page.locator(".jp-Kai-Chip")).to_contain_text("1 of 1".replace(" ", "\u00a0"))
    expect(panel.locator(".jp-Kai-Req").first).to_contain_text("train.ipynb")
    expect(panel.locator(".jp-Kai-Queue .me")).to_contain_text("you")
    expect(screen.page.locator(".jp-Kai-StatusItem")).to_contain_text("1\u00a0waiting")
    _covers_no_cell(screen.page)
    screen.run(2)  # other cells run meanwhile
    card.get_by_role("button", name="Why").click()
    expect(card.locator(".jp-Kai-Reasons")).to_contain_text("0.5")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"waiting-{theme.split()[-1].lower()}")
        parts = ("#kai-gpu-panel", ".jp-OutputArea .jp-Kai-Card", ".jp-Kai-Banner", ".jp-Kai-Chip")
        assert screen.violations(*parts) == []
    lab.kai("cancel", "other-1")
    expect(card).to_contain_text("Granted")
    expect(banner).to_be_hidden()
    expect(screen.page.locator(".Toastify__toast").first).to_contain_text("0.5")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"granted-{theme.split()[-1].lower()}")
        assert screen.violations("#kai-gpu-panel", ".jp-OutputArea .jp-Kai-Card") == []
    _releases_after_an_undo(screen, keep)


def _releases_after_an_undo(screen: Screen, keep: Pictures) -> None:
    card = screen.card
    release = card.get_by_role("button", name="Release", exact=True)
    undo = card.get_by_role("button", name="Undo")
    release.click()
    expect(card).to_contain_text("Released")
    keep("released-with-undo")
    assert screen.violations(".jp-OutputArea .jp-Kai-Card") == []
    undo.click()
    expect(card).to_contain_text("Granted")
    release.click()
    expect(undo).to_be_visible()
    expect(undo).to_have_count(0)  # the five seconds are over, the service has it back
    expect(card).to_contain_text("Released")


def _covers_no_cell(page: Page) -> None:
    """The banner ends above the first cell."""
    banner = page.locator(".jp-Kai-Banner").bounding_box()
    cell = page.locator(".jp-Notebook .jp-Cell").first.bounding_box()
    assert banner is not None
    assert cell is not None
    assert banner["y"] + banner["height"] <= cell["y"]


def test_the_card_cancels_while_the_kernel_is_busy(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    lab.fill()
    busy = "import time\nwhile True:\n    time.sleep(0.1)"
    screen.open(lab.notebook("busy.ipynb", LOAD, "%gpu 0.5", busy))
    screen.run(0)
    screen.run(1)
    expect(screen.card).to_contain_text("Position 1")
    screen.start(2)
    expect(screen.page.locator(".jp-InputPrompt").nth(2)).to_contain_text("*")
    screen.card.get_by_role("button", name="Cancel").click()
    expect(screen.card).to_contain_text("Cancelled")
    keep("cancelled-while-busy")
    expect(screen.page.locator(".jp-InputPrompt").nth(2)).to_contain_text("*")
    screen.execute("notebook:interrupt-kernel")


def test_the_card_that_asks_makes_the_request(screen: Screen, lab: Lab, keep: Pictures) -> None:
    screen.open(lab.notebook("ask.ipynb", LOAD, "%gpu"))
    screen.run(0)
    screen.run(1)
    expect(screen.card).to_contain_text("Ask for a GPU share")
    screen.card.get_by_role("radio").nth(1).check()
    keep("asking")
    assert screen.violations(".jp-OutputArea .jp-Kai-Card") == []
    screen.card.get_by_role("button", name=re.compile("^Ask for 0.5")).click()
    expect(screen.card).to_contain_text("Granted")


def test_a_gang_shows_ranks_and_log_and_brings_its_result(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    screen.open(lab.notebook("gang.ipynb", LOAD, TRAINING))
    screen.run(0)
    screen.start(1)
    card = screen.card
    expect(card.locator(".jp-Kai-Ranks tbody tr")).to_have_count(4)
    expect(card.get_by_role("log")).to_contain_text("step 5")
    keep("gang-running")
    assert screen.violations(".jp-OutputArea .jp-Kai-Card") == []
    card.get_by_role("button", name="Rank 2").click()
    expect(card.get_by_role("log")).not_to_contain_text("rank 0 step")
    expect(card.get_by_role("log")).to_contain_text("rank 2 step")
    card.get_by_role("button", name="Open in a tab").click()
    tab = screen.page.locator(".jp-Kai-GangTab")
    expect(tab.get_by_role("log")).to_contain_text("rank 1 step")
    expect(screen.panel.locator(".jp-Kai-Gang")).to_contain_text("sweep-lr")
    keep("gang-in-a-tab")
    (lab.work / "finish").touch()
    expect(card).to_contain_text("Result ready")
    expect(card.locator(".jp-Kai-Facts")).to_contain_text("loss")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"gang-result-{theme.split()[-1].lower()}")
        assert screen.violations(".jp-Kai-GangTab", "#kai-gpu-panel") == []


def test_the_first_failure_is_pinned_at_its_line(screen: Screen, lab: Lab, keep: Pictures) -> None:
    screen.open(lab.notebook("broken.ipynb", LOAD, BROKEN))
    screen.run(0)
    screen.start(1)
    trace = screen.card.locator(".jp-Kai-Trace")
    expect(trace).to_contain_text("shapes do not match")
    expect(trace.locator("mark")).to_contain_text("raise ValueError")
    expect(trace).to_contain_text("worker 2")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"gang-failed-{theme.split()[-1].lower()}")
        assert screen.violations(".jp-OutputArea .jp-Kai-Card") == []
    trace.get_by_role("button", name="Go to the line").click()
    screen.page.wait_for_function(
        f"() => {NOTEBOOK}.content.activeCell.editor.getCursorPosition().line === 3"
    )


def test_run_on_n_workers_writes_the_magic_into_the_cell(screen: Screen, lab: Lab) -> None:
    screen.open(lab.notebook("button.ipynb", "print('hello')"))
    screen.page.locator(".jp-Notebook .jp-Cell").first.click()
    screen.page.locator('.jp-cell-toolbar [data-jp-item-name="kai-gang"]').click()
    screen.page.wait_for_function(
        "() => document.querySelector('.cm-content').textContent.includes('gang')"
    )
    assert screen.source(0) == "%%gang -n 4\nprint('hello')"
    screen.execute("kai:run-cell-as-gang", workers=8)
    assert screen.source(0) == "%%gang -n 4\nprint('hello')"


def test_the_chip_asks_by_keyboard(screen: Screen, lab: Lab, keep: Pictures) -> None:
    screen.open(lab.notebook("chip.ipynb", "x = 1"))
    chip = screen.page.locator(".jp-Kai-Chip")
    chip.focus()
    screen.page.keyboard.press("Enter")
    popover = screen.page.get_by_role("dialog")
    expect(popover.locator("li").nth(1)).to_contain_text("now")
    keep("popover")
    assert screen.violations(".jp-Kai-Popover") == []
    screen.page.keyboard.press("Escape")
    expect(popover).to_be_hidden()
    expect(chip).to_be_focused()
    screen.page.keyboard.press("Enter")
    expect(popover.locator("li button").first).to_be_focused()
    screen.page.keyboard.press("ArrowDown")
    screen.page.keyboard.press("Enter")
    expect(chip).to_contain_text("0.5")
    assert screen.source(1) == "%load_ext kai_jupyter\n%gpu 0.5"


def test_the_panel_opens_by_shortcut_and_every_command_is_described(screen: Screen) -> None:
    screen.open()
    screen.page.keyboard.press("Control+Shift+G")
    expect(screen.page.locator("#kai-gpu-panel")).to_be_visible()
    commands = screen.page.evaluate(
        """async () => {
          const { commands } = window.jupyterapp;
          const ids = commands.listCommands().filter(id => id.startsWith('kai:'));
          return Promise.all(ids.map(async id => [id, commands.label(id), (await commands.describedBy(id)).args]));
        }"""
    )
    assert len(commands) >= 10
    assert [name for name, label, described in commands if not label or not described] == []


def test_a_command_that_fails_says_why(screen: Screen) -> None:
    screen.open()
    screen.page.evaluate(
        "() => window.jupyterapp.commands.execute('kai:cancel-request', { group: 'nobody/nothing' }).catch(() => 0)"
    )
    toast = screen.page.locator(".Toastify__toast")
    expect(toast).to_contain_text("There is no request nobody/nothing any more.")


def test_a_lost_connection_is_told_and_comes_back(screen: Screen, keep: Pictures) -> None:
    away: list[WebSocketRoute] = []
    is_away = [False]

    def between(route: WebSocketRoute) -> None:
        if is_away[0]:
            route.close()
            return
        away.append(route)
        route.connect_to_server()

    screen.page.route_web_socket(re.compile("/kai/stream"), between)
    screen.open()
    panel = screen.panel
    expect(panel).to_contain_text("You hold no GPU.")
    is_away[0] = True
    away[-1].close()
    expect(panel).to_contain_text("The queue does not answer.")
    expect(panel).to_contain_text("as of")
    keep("panel-offline")
    assert screen.violations("#kai-gpu-panel") == []
    # Only the press lets it come back: the page tries by itself too, and must not be the quicker one here.
    screen.page.expose_function("kaiTestPressed", lambda: is_away.__setitem__(0, False))
    screen.page.evaluate(
        """() => document.addEventListener(
            'click', event => event.target.closest('[data-do="retry"]') && window.kaiTestPressed(), true)"""
    )
    panel.get_by_role("button", name="Retry").click()
    expect(panel.locator(".jp-Kai-Note")).to_be_hidden()
    assert not is_away[0]
