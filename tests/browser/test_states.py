"""Every state of the card as the built widget draws it: both themes, no axe violations, from 280 px."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kai_jupyter.widgets import card
from scheduler_service.wire.codec import encode
from tests.browser.conftest import Pictures
from tests.browser.screen import AXE
from tests.browser.states import STATES, choices

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRAME = """<!DOCTYPE html><html lang="en"><head><title>States of the card</title><style>%s
  body { margin: 0; padding: 16px; background: %s; color: %s; }
  main { display: grid; grid-template-columns: repeat(auto-fill, %dpx); gap: 16px; align-items: start; }
</style></head><body data-jp-theme-light="%s"><main></main></body></html>"""
DRAW = """async ([source, traits]) => {
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const widget = (await import(url)).default;
  for (const own of traits) {
    const el = document.createElement('div');
    document.querySelector('main').append(el);
    widget.render({ model: { get: name => own[name], on() {}, off() {}, send() {} }, el });
  }
}"""
Gallery = Callable[..., None]


def _traits() -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = [
        {"view": json.loads(json.dumps(encode(v)))} for v in STATES.values()
    ]
    asked = [
        {**encode(forecast), "gpu": gpu, "submit": encode(ask)} for gpu, forecast, ask in choices()
    ]
    ask = {"choices": asked, "queues": ["team-a", "batch"], "durations": ["", "2h", "4h"]}
    return [{"view": {}, "ask": json.loads(json.dumps(ask))}, *views]


@pytest.fixture
def gallery(page: Page) -> Gallery:
    """Draw all states side by side."""
    if not card.is_built():
        pytest.skip("the widget is not built; run `make env`")

    def draw(*, width: int, dark: bool) -> None:
        style = (card.STATIC / "card.css").read_text()
        colours = ("#111", "#fff") if dark else ("#fff", "#000")
        page.set_viewport_size({"width": 1440, "height": 900})
        page.set_content(FRAME % (style, *colours, width, str(not dark).lower()))
        page.evaluate(DRAW, [(card.STATIC / "card.js").read_text(), _traits()])
        expect(page.locator(".jp-Kai-Card")).to_have_count(len(STATES) + 1)

    return draw


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [600, 280])
def test_every_state_is_readable(
    page: Page, gallery: Gallery, keep: Pictures, width: int, dark: bool
) -> None:
    gallery(width=width, dark=dark)
    page.set_viewport_size(
        {"width": 1440, "height": page.evaluate("document.documentElement.scrollHeight")}
    )
    keep(f"states-{width}-{'dark' if dark else 'light'}")
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        "async () => (await axe.run('main')).violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html))"
    )
    assert found == []
    wide = "[...document.querySelectorAll('.jp-Kai-Card')].filter(c => c.scrollWidth > c.clientWidth + 1)"
    assert page.evaluate(f"{wide}.map(c => c.getAttribute('aria-label'))") == []


def test_every_button_has_a_name_and_size(page: Page, gallery: Gallery) -> None:
    gallery(width=600, dark=False)
    small = page.evaluate(
        """(() => { const nameOf = e => e.textContent.trim() || e.ariaLabel || e.labels?.length;
          return [...document.querySelectorAll('.jp-Kai-Card button, .jp-Kai-Card summary, .jp-Kai-Card select')]
          .filter(e => e.checkVisibility())
          .filter(e => e.getBoundingClientRect().height < 23.5 || !nameOf(e))
          .map(e => e.outerHTML); })()"""
    )
    assert small == []
