"""An idle server is warned and stopped; one whose kernel works never is."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.hub.conftest import Hub, Person

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

WORKS = """import os, time
for step in range(10**6):
    open('steps', 'w').write(str(step))
    time.sleep(0.5)
    if os.path.exists('done'):
        break
"""
STEPS = 150
"""Each half a second: longer than the rule of the queue allows to be idle."""


def test_a_working_kernel_is_spared_and_an_idle_one_is_warned_first(
    person: Callable[[str], Person], hub: Hub
) -> None:
    ben = person("ben")
    ben.starts_with("0.25")
    ben.page.wait_for_url(re.compile("/user/ben/lab"))
    ben.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    ben.begins(WORKS)
    home = hub.folder / "ben"

    def steps() -> int:
        file = home / "steps"
        return int(file.read_text() or 0) if file.exists() else 0

    hub.until(lambda: steps() >= STEPS, "the kernel has worked a while")
    assert hub.ready("ben")
    assert [group["state"] for group in hub.groups("ben")] == ["Running"]
    (home / "done").touch()
    expect(ben.page.locator(".Toastify")).to_contain_text("this server is stopped")
    ben.page.goto("about:blank")  # a page of a server that is gone has much to complain about
    hub.until(lambda: not hub.server("ben"), "the idle server is stopped")
    assert hub.groups("ben") == []
