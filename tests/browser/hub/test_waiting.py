"""Waiting for a GPU at the hub: the place is seen, kept and given back, and there is always another way."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Pictures
from tests.browser.hub.conftest import DEVICES, Hub, Person, said

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

People = Callable[[str], Person]
LAB = re.compile("/user/ana/lab")
PENDING = re.compile("/hub/spawn-pending/ana")


@pytest.fixture
def full(hub: Hub) -> list[dict[str, object]]:
    """Have both GPUs held by others."""
    return [hub.hold("ben", "1"), hub.hold("lea", "1")]


def test_who_waits_sees_the_place_and_gets_lab_when_it_is_granted(
    person: People, hub: Hub, full: list[dict[str, object]], keep: Pictures
) -> None:
    ana = person("ana")
    ana.starts_with("0.5")
    page = ana.page
    page.wait_for_url(PENDING)
    expect(page.locator("#kai-title")).to_have_text("Your server waits for 0.5 GPU")
    expect(page.locator("#kai-line")).to_contain_text("Position 1 of 1.")
    expect(page.locator("#kai-keep")).to_contain_text("You keep your place.")
    expect(page.locator("#kai-stages li.now")).to_contain_text("In the queue")
    expect(page.locator("#kai-stages li")).to_have_count(6)
    assert "FailedScheduling" not in page.content()
    assert ana.violations() == []
    keep("hub-waiting")
    (place,) = hub.groups("ana")
    page.reload()
    expect(page.locator("#kai-line")).to_contain_text("Position 1 of 1.")
    assert [group["name"] for group in hub.groups("ana")] == [place["name"]]
    page.goto("about:blank")  # nobody looks
    hub.cancel(full[1])
    hub.ready("ana")
    ana.opens("hub/spawn-pending/ana")
    page.wait_for_url(LAB)
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    assert said(ana.runs(DEVICES))["KAI_GPU_FRACTION"] == "0.5"
    assert [group["name"] for group in hub.groups("ana")] == [place["name"]]


@pytest.mark.usefixtures("full")
def test_who_waits_may_start_on_the_cpu_instead(person: People, hub: Hub) -> None:
    ana = person("ana")
    ana.starts_with("0.5")
    ana.page.wait_for_url(PENDING)
    ana.page.get_by_role("button", name="Start on CPU now").click()
    ana.page.wait_for_url(LAB)
    ana.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    held = said(ana.runs(DEVICES))
    assert (held["KAI_GPU_FRACTION"], held["CUDA_VISIBLE_DEVICES"]) == (None, "")
    assert hub.groups("ana") == []
    assert hub.ready("ana")["user_options"]["share"] == "cpu"


@pytest.mark.usefixtures("full")
def test_a_long_wait_is_told_before_anything_is_asked(
    person: People, hub: Hub, keep: Pictures
) -> None:
    hub.spawn("ana", share="0.5")
    hub.until(lambda: hub.groups("ana"), "ana waits")
    hub.end_server("ana")
    ana = person("ana")
    ana.opens("hub/spawn/ana")
    expect(ana.page.locator("#kai-lead")).to_contain_text(re.compile("our last choice, 0.5 GPU,"))
    expect(ana.card("0.5")).to_contain_text("your last choice")
    expect(ana.card("0.5").locator(".soon")).to_have_count(0)
    expect(ana.card("cpu").locator("input")).to_be_checked()
    expect(ana.page.locator("#kai-go")).to_have_text("Start on CPU now")
    keep("hub-start-full")
    for group in hub.groups("lea"):
        hub.cancel(group)
    expect(ana.card("0.5").locator(".soon")).to_have_text("now")  # while the page is open


@pytest.mark.usefixtures("full")
def test_stop_gives_the_place_back(person: People, hub: Hub) -> None:
    ana = person("ana")
    ana.starts_with("1")
    ana.page.wait_for_url(PENDING)
    stop = ana.page.get_by_role("button", name="Stop and give the place back")
    stop.click()
    ana.page.wait_for_url(re.compile("/hub/spawn/ana"))
    hub.until(lambda: hub.groups("ana") == [], "the place is given back")
    assert hub.server("ana") is None


@pytest.mark.usefixtures("full")
def test_a_place_withdrawn_by_somebody_else_says_so_and_what_to_do(
    person: People, hub: Hub, keep: Pictures
) -> None:
    ana = person("ana")
    ana.starts_with("0.5")
    ana.page.wait_for_url(PENDING)
    expect(ana.page.locator("#kai-line")).to_contain_text("Position 1")
    hub.cancel(hub.groups("ana")[0])
    expect(ana.page.locator("h1")).to_have_text(re.compile("was not started"))
    expect(ana.page.get_by_role("alert")).to_contain_text("Refused")
    assert ana.violations() == []
    keep("hub-refused")
    ana.page.get_by_role("link", name="Start on CPU now").click()
    ana.page.wait_for_url(LAB)


def test_what_can_never_be_is_refused_before_anything_is_made(hub: Hub) -> None:
    answer = hub.spawn("ana", share="2")
    assert answer.status_code == 403
    assert "2 GPUs can not start." in answer.json()["message"]
    answer = hub.spawn("ana", share="64")
    assert (answer.status_code, hub.groups("ana")) == (400, [])
    answer = hub.spawn("ana", share="0.5", queue="team-b")
    assert answer.status_code == 403
    assert "Yours are: team-a." in answer.json()["message"]


def test_nothing_of_one_start_is_left_in_the_next(hub: Hub) -> None:
    hub.spawn("ana", share="0.5")
    hub.ready("ana")
    hub.end_server("ana")
    assert hub.groups("ana") == []
    hub.spawn("ana", share="cpu")
    hub.ready("ana")
    assert hub.groups("ana") == []


def test_a_start_that_fails_keeps_its_gpu_for_the_retry(hub: Hub) -> None:
    hub.spawn("ana", share="0.5", profile="broken")
    (held,) = hub.until(lambda: hub.groups("ana"), "ana holds a share")
    hub.until(lambda: not hub.server("ana"), "the start has failed")  # after the hub's http_timeout
    hub.spawn("ana", share="0.5", profile="plain")
    hub.ready("ana")
    assert [group["name"] for group in hub.groups("ana")] == [held["name"]]


@pytest.mark.usefixtures("full")
def test_the_place_outlives_a_restart_of_the_hub(hub: Hub) -> None:
    hub.spawn("ana", share="0.5")
    (place,) = hub.until(lambda: hub.groups("ana"), "ana waits")
    hub.stop()
    hub.start()
    hub.spawn("ana", share="0.5")
    hub.until(lambda: hub.server("ana"), "ana waits again")
    for group in hub.groups("lea"):
        hub.cancel(group)
    hub.ready("ana")
    assert [group["name"] for group in hub.groups("ana")] == [place["name"]]


def test_who_loses_the_gpu_to_others_is_stopped_after_the_grace(hub: Hub) -> None:
    hub.spawn("ana", share="0.5")
    hub.ready("ana")
    (group,) = hub.groups("ana")
    path = f"/pod-groups/ana/{group['name']}/cancel"
    assert hub.kai("POST", path, who="lea", body={"grace_s": 1, "reason": "drained"}).is_success
    hub.until(lambda: not hub.server("ana"), "the server is stopped")
    hub.until(lambda: not hub.groups("ana"), "its GPU is free")
