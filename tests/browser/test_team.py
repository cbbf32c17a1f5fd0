"""The page of a team's lead in Voila, in a real browser: what it says, what a lead does there, what nobody can do."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kai_jupyter.widgets import team as widget
from tests.browser.conftest import Pictures
from tests.browser.dashboard import (
    Dashboard,
    note_figures,
    painted_ms,
    served,
    status,
    violations,
)
from tests.browser.screen import ARTIFACTS

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def dashboard(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    pytest.importorskip("voila")
    if not widget.is_built():
        pytest.skip("the widget is not built; run `make env`")
    assert chromium.is_connected()
    with served(tmp_path_factory.mktemp("team")) as found:
        yield found


def confirm(page: Page, reason: str, button: str, **fields: str) -> None:
    """Fill in the dialog and confirm it."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for name, value in fields.items():
        dialog.locator(f"[name={name}]").fill(value)
    dialog.locator("[name=reason]").fill(reason)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def row_menu(page: Page, name: str, item: str) -> None:
    """Choose from the menu of a row."""
    page.locator(f'summary[aria-label="{name}"]').click()
    page.get_by_role("button", name=item).locator("visible=true").first.click()


# -- what it says --------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_says_what_the_service_says_without_an_error_or_a_foreign_address(
    page: Page, dashboard: Dashboard, keep: Pictures, scheme: str
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    began = time.monotonic()
    board = dashboard.open(page)
    drawn_s = time.monotonic() - began
    expect(page).to_have_title("GPU queues of your team")
    expect(board.get_by_role("heading", level=1)).to_have_text("Queue vision")
    expect(board.locator(".four")).to_contain_text("23.5 of 24\u00a0GPUs of quota")
    expect(board.locator(".needs")).to_contain_text("leases have been idle for more than")
    expect(board.locator(".waits tbody tr")).to_have_count(5)
    expect(board.locator(".whatif")).to_contain_text("team-a")
    page.set_viewport_size({"width": 1440, "height": 2400})
    keep(f"team-{scheme}")
    background = page.evaluate(
        "getComputedStyle(document.querySelector('.jp-Kai-Board')).backgroundColor"
    )
    assert background == ("rgb(33, 33, 33)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert violations(page) == []
    own = ("data:", "blob:", dashboard.url)
    assert [url for url in asked if not url.startswith(own)] == []
    note_figures(ARTIFACTS, first_paint_ms=painted_ms(page), board_drawn_s=round(drawn_s, 2))


def test_a_phone_shows_it_without_sideways_scrolling(
    page: Page, dashboard: Dashboard, keep: Pictures
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    dashboard.open(page)
    expect(page.locator(".waits tbody tr")).to_have_count(5)
    expect(page.locator(".whatif .jp-Kai-Line")).to_be_visible()
    keep("team-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    small = page.evaluate(
        "[...document.querySelectorAll('button, summary, select, input')].filter(e => e.checkVisibility())"
        ".filter(e => e.getBoundingClientRect().height < 23.5).map(e => e.outerHTML)"
    )
    assert small == []


def test_a_change_in_the_queue_is_on_the_page_without_a_reload(
    page: Page, dashboard: Dashboard
) -> None:
    board = dashboard.open(page)
    service = dashboard.team.service
    view = dashboard.team.call(service.group(_caller("ivo"), "ivo", "align"))
    assert view.state == "Waiting"
    dashboard.team.call(service.cancel(_caller("ivo"), "ivo", "align", _cancel()))
    expect(board.locator(".waits")).not_to_contain_text("align")


def _caller(name: str) -> object:
    from tests.fakes.team_service import PEOPLE

    return PEOPLE[name]


def _cancel() -> object:
    from scheduler_service.wire.pod_group import Cancel

    return Cancel(grace_s=0)


def test_the_filter_stays_in_the_address(page: Page, dashboard: Dashboard) -> None:
    board = dashboard.open(page)
    board.get_by_role("searchbox").fill("noor")
    expect(board.locator(".waits tbody tr")).to_have_count(1)
    assert "who=noor" in page.url
    page.reload()
    expect(board.locator(".waits tbody tr")).to_have_count(1)
    expect(board.get_by_role("searchbox")).to_have_value("noor")
    board.get_by_role("searchbox").fill("")
    expect(board.locator(".waits tbody tr")).not_to_have_count(1)
    assert "who=" not in page.url


def test_lists_are_saved_as_csv(page: Page, dashboard: Dashboard) -> None:
    board = dashboard.open(page)
    with page.expect_download() as download:
        board.get_by_role("button", name="CSV of People").click()
    assert download.value.suggested_filename == "kai-people.csv"
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert {"ben", "kim", "mira"} <= {row["who"] for row in rows}
    assert all(float(row["holds_gpus"]) >= 0 for row in rows)


# -- what a lead does ------------------------------------------------------------------------------
def test_quota_is_lent_after_its_effect_was_shown_and_taken_back(
    page: Page, dashboard: Dashboard, keep: Pictures
) -> None:
    board = dashboard.open(page)
    form = board.locator(".whatif form")
    form.locator("[name=gpu]").fill("2")
    expect(form.locator(".ba tbody tr")).to_have_count(4)
    expect(form).to_contain_text("If team-a asks for more than 6\u00a0GPUs")
    keep("team-what-if")
    assert not [o for o in dashboard.overlays() if o.kind == "lend"]
    form.locator("[name=reason]").fill("Deadline of the defect report")
    form.get_by_role("button", name="Lend").click()
    expect(board.locator(".jp-Kai-Said")).to_contain_text("team-a lends 2 GPUs to team-b until")
    made = dashboard.overlay("lend")
    assert (made.by, made.queue, made.to, made.milli_gpu) == ("mira", "team-a", "team-b", 2000)
    assert made.reason == "Deadline of the defect report"
    expect(board.get_by_role("region", name="Table of queues")).to_contain_text("lends 2")
    assert any("Deadline of the defect report" in text for text in dashboard.told("noor"))
    board.get_by_role("button", name="Take back: team-a lends").click()
    confirm(page, "The report is done", "Take back")
    expect(board.locator(".jp-Kai-Said")).to_contain_text("Taken back")
    assert dashboard.overlay("lend").ended_why == "The report is done"
    assert violations(page) == []


def test_a_request_is_put_first_and_its_owner_reads_why(page: Page, dashboard: Dashboard) -> None:
    board = dashboard.open(page)
    row_menu(page, "Actions for refine of kim", "Put first in team-b")
    confirm(page, "Demo for the visitors", "Put first")
    expect(board.locator(".waits tr", has_text="refine").locator("td").first).to_have_text("1")
    service = dashboard.team.service
    view = dashboard.team.call(service.group(_caller("kim"), "kim", "refine"))
    assert dashboard.overlay("priority").text == "Puts refine first in team-b"
    assert any("Demo for the visitors" in note for note in view.notes)
    assert any("Demo for the visitors" in text for text in dashboard.told("kim"))


def test_a_person_is_capped(page: Page, dashboard: Dashboard) -> None:
    board = dashboard.open(page)
    people = board.get_by_role("region", name="Table of people")
    people.locator('summary[aria-label="Actions for ben"]').click()
    people.get_by_role("button", name="Set the most that ben may hold").click()
    confirm(page, "Others wait longer", "Set", gpu="4")
    expect(people).to_contain_text("at most 4")
    made = dashboard.overlay("cap")
    assert (made.person, made.queue, made.milli_gpu, made.until) == ("ben", "team-b", 4000, None)


def test_owners_are_asked_then_a_lease_is_released_with_a_message(
    page: Page, dashboard: Dashboard, keep: Pictures
) -> None:
    board = dashboard.open(page)
    need = board.locator(".needs li", has_text="team-b")
    need.get_by_role("button", name="Ask maximiliane.oberhauser").click()
    confirm(page, "Do you still need it?", "Send")
    expect(board.locator(".jp-Kai-Said")).to_contain_text("Asks you to release 1 GPU")
    need.get_by_role("button", name="Release with a reason").click()
    expect(page.get_by_role("dialog")).to_contain_text("This can not be taken back.")
    keep("team-release")
    confirm(page, "Idle since noon, others wait", "Release")
    service = dashboard.team.service
    owner = "maximiliane.oberhauser"
    view = dashboard.team.call(service.group(_caller(owner), owner, "notebook-7"))
    assert view.state in {"Stopping", "Cancelled"}
    said = dashboard.told(owner)
    assert any("Do you still need it?" in text for text in said)
    assert any("Idle since noon, others wait" in text for text in said)


def test_a_queue_is_drained_by_the_keyboard_and_a_refusal_is_told(
    page: Page, dashboard: Dashboard
) -> None:
    board = dashboard.open(page)
    page.locator('summary[aria-label="Actions for queue annotation"]').press("Enter")
    drain = board.get_by_role("button", name="Drain: start nothing new").locator("visible=true")
    drain.first.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not [o for o in dashboard.overlays() if o.kind == "drain"]
    page.locator('summary[aria-label="Actions for queue annotation"]').press("Enter")
    drain.first.press("Enter")
    confirm(page, "New driver", "Drain")
    expect(board.get_by_role("region", name="Table of queues")).to_contain_text("is drained")
    form = board.locator(".whatif form")
    form.locator("[name=gpu]").fill("99")
    expect(form.get_by_role("alert")).to_contain_text("Lend at most 8 GPUs")


# -- what nobody can do ------------------------------------------------------------------------------
RUN = """async ([id, code]) => {
  const socket = new WebSocket(`ws://${location.host}/api/kernels/${id}/channels?session_id=evil`);
  const heard = [];
  await new Promise(open => { socket.onopen = open; });
  socket.onmessage = event => heard.push(typeof event.data === 'string' ? JSON.parse(event.data).msg_type : 'binary');
  const send = (type, content) => socket.send(JSON.stringify({
    header: { msg_id: type, msg_type: type, session: 'evil', username: '', version: '5.3',
      date: new Date().toISOString() },
    parent_header: {}, metadata: {}, content, channel: 'shell', buffers: [] }));
  send('execute_request', { code, silent: false, store_history: false, user_expressions: {}, allow_stdin: false });
  send('inspect_request', { code: 'open', cursor_pos: 1, detail_level: 1 });
  send('kernel_info_request', {});
  while (!heard.includes('kernel_info_reply')) await new Promise(rest => setTimeout(rest, 50));
  socket.close();
  return heard;
}"""


def test_a_viewer_can_not_run_code(page: Page, dashboard: Dashboard, tmp_path: Path) -> None:
    mark = f"{tmp_path}/it-ran"
    dashboard.open(page)
    kernel = page.evaluate(
        "JSON.parse(document.getElementById('jupyter-config-data').textContent).kernelId"
    )
    heard = page.evaluate(RUN, [kernel, f"open({mark!r}, 'w').close()"])
    assert "kernel_info_reply" in heard
    assert not {"execute_reply", "execute_input", "inspect_reply"} & set(heard)
    assert not Path(mark).exists()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "api/kernels"),
        ("POST", "api/kernels"),
        ("GET", "api/kernelspecs"),
        ("GET", "api/sessions"),
        ("GET", "api/contents"),
        ("GET", "api/terminals"),
        ("GET", "voila/files/team.ipynb"),
        ("GET", "voila/files/serve.py"),
        ("GET", "kai/pod-groups"),
    ],
)
def test_there_is_no_way_to_other_kernels_files_or_terminals(
    dashboard: Dashboard, method: str, path: str
) -> None:
    assert status(f"{dashboard.url}{path}", method=method) >= 400


def test_who_has_not_the_address_sees_nothing(dashboard: Dashboard) -> None:
    assert status(dashboard.url, token="") == 403
    assert status(dashboard.url, token="guessed") == 403


def test_l096_kernels_of_pages_that_were_closed_are_ended(
    chromium: Browser, dashboard: Dashboard
) -> None:
    for _ in range(3):
        context = chromium.new_context()
        dashboard.open(context.new_page())
        context.close()  # as a crashed browser would: nothing is said to the server
    deadline = time.monotonic() + 180
    while dashboard.kernels > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert dashboard.kernels == 1
