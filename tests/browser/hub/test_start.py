"""From the hub's start page to a notebook on a share of a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Pictures
from tests.browser.hub.conftest import DEVICES, Hub, Person, said

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

People = Callable[[str], Person]


def test_a_share_is_chosen_granted_and_used_in_lab(
    person: People, hub: Hub, keep: Pictures
) -> None:
    ana = person("ana")
    ana.opens("hub/spawn/ana")
    expect(ana.card("0.5")).to_contain_text("now")
    expect(ana.card("cpu")).to_contain_text("CPU now, GPU later")
    assert ana.violations() == []
    keep("hub-start")
    ana.starts_with("0.5")
    ana.page.wait_for_url(re.compile("/user/ana/lab"))
    ana.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    held = said(ana.runs(DEVICES))
    assert held["KAI_GPU_FRACTION"] == "0.5"
    assert held["KAI_GPU_DEVICES"].startswith("GPU-sim-")
    (group,) = hub.groups("ana")
    assert (group["kind"], group["queue"], group["state"]) == ("server", "team-a", "Running")
    hub.end_server("ana")
    assert hub.groups("ana") == []
