"""The card: what it carries, what happens when a person chooses something on it, and its text."""

from dataclasses import replace

import pytest

import kai_jupyter
from kai_jupyter import text
from kai_jupyter.handles import encode_json
from kai_jupyter.leases import Lease
from kai_jupyter.widgets.card import KaiCard
from scheduler_service.wire.pod_group import (
    ActionView,
    FailureView,
    PodGroupView,
    PodView,
    Progress,
    RequestView,
    ResultItem,
    Submit,
)
from tests.jupyter.conftest import eventually, fill

VIEW = PodGroupView(
    namespace="ana", name="lease", owner="ana", mine=True, kind="lease", queue="team-a",
    request=RequestView(text="0.5 GPU", share_mib=40_960), workers=1, min_members=1, priority=100, preemptible=False,
    state="Waiting", word="Waiting", tone="wait", icon="hourglass",
    headline="Position 3 of 7. About 6 min (4 to 11).", detail="Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.",
    sentence="Position 3 of 7. About 6 min (4 to 11). Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.",
    rev=4, created_at=0,
    actions=(
        ActionView(id="smaller", label="Switch", eta_text="now", submit=Submit(gpu="0.25"), code="%gpu 0.25"),
        ActionView(
            id="smaller", label="Switch", eta_text="now", submit=Submit(gpu="0.5"), code="%gpu 0.5 --preemptible"
        ),
        ActionView(id="cancel", label="Cancel"),
    ),
)  # fmt: skip


def test_the_text_has_the_words_of_the_card_in_their_order():
    assert text.card_text(VIEW) == (
        "0.5 GPU, 40 GiB memory share, queue team-a\n"
        "Waiting   Position 3 of 7. About 6 min (4 to 11).\n"
        "          Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.\n"
        "Sooner    %gpu 0.25                now\n"
        "          %gpu 0.5 --preemptible   now\n"
        "Cancel    %gpu release\n"
        "Reasons   %gpu why"
    )


def test_a_service_that_is_away_is_told_with_the_last_that_was_known():
    told = text.card_text(VIEW, offline="The queue does not answer.").splitlines()

    assert told[1] == "Offline     The queue does not answer."
    assert told[2].startswith("Last known  ")
    assert "Position 3 of 7" in told[2]


def test_the_first_failure_shows_its_line_between_its_neighbours():
    source = "a = 1\nb = 2\nfor x in data:\n    loss = 1 / x\n    print(loss)\nend = 1"
    failure = FailureView(
        rank=5, at=0, message="ZeroDivisionError: division by zero", cell_line=4, source=source
    )
    gang = replace(
        VIEW, kind="gang", name="sweep", workers=8, state="Failed", word="Failed", actions=(), failure=failure,
        headline="Worker 5 failed first, at 10:47:12.", detail="",
    )  # fmt: skip

    assert text.card_text(gang).splitlines() == [
        "sweep, 8 workers \N{MULTIPLICATION SIGN} 0.5 GPU, queue team-a",
        "Failed    Worker 5 failed first, at 10:47:12.",
        "Failed    worker 5: ZeroDivisionError: division by zero",
        "Line      4 of the cell",
        "              2  b = 2",
        "              3  for x in data:",
        "          >   4      loss = 1 / x",
        "              5      print(loss)",
    ]


def test_progress_and_results_have_their_lines():
    pods = (
        PodView(
            name="s-0",
            rank=0,
            state="Running",
            progress=Progress(step=1240, total=3200, metrics={"loss": 0.2981}),
        ),
    )
    running = replace(
        VIEW, kind="gang", name="s", state="Running", word="Running", actions=(), pods=pods
    )
    done = replace(
        VIEW, kind="gang", name="s", state="Succeeded", word="Result ready", actions=(),
        headline="All 4 workers finished at 10:47.", detail="",
        results=(ResultItem(name="loss", text="float 0.2143", size=8),),
    )  # fmt: skip

    assert "Progress  worker 0: step 1,240 of 3,200, loss 0.2981" in text.card_text(running)
    assert text.card_text(done).splitlines()[1:] == [
        "Result ready  All 4 workers finished at 10:47.",
        "Result        loss   float 0.2143",
        'Value         gang("s").result()',
    ]


@pytest.mark.parametrize(
    "word", ["Waiting", "Cancelled", "Cannot start", "Taken back in 1 h 5 min"]
)
def test_no_word_reaches_into_the_column_of_the_texts(word):
    told = text.card_text(replace(VIEW, word=word)).splitlines()

    start = told[1].index(VIEW.headline)
    assert told[1][:start].rstrip() == word
    assert told[1][:start].endswith("  ")
    assert told[2].index(VIEW.detail) == told[-1].index("%gpu why") == start


def test_the_card_is_what_travels_to_the_page():
    card = KaiCard(
        on_action=lambda _: None, group="ana/lease", view=encode_json(VIEW), text="plain"
    )

    assert card.view["headline"] == VIEW.headline
    assert isinstance(card.view["actions"], list)
    assert card.bundle()["text/plain"] == "plain"


def test_only_what_a_person_can_choose_reaches_the_kernel():
    heard = []
    card = KaiCard(on_action=heard.append)
    for message in (
        {"kind": "action", "id": "cancel"},
        {"kind": "ask"},
        {"kind": "eval"},
        "nonsense",
        None,
    ):
        card._take(card, message, [])

    assert [m["kind"] for m in heard] == ["action", "ask"]


@pytest.mark.process
class TestChoices:
    """Where there is no page that could do it, the kernel does."""

    @pytest.fixture
    def waiting(self, cell, shell, embedded):
        with embedded.client() as client:
            fill(client, gpu=1.0)
            fill(client, gpu="0.75")
        cell("h = %gpu 1")
        lease = shell.user_ns["h"]
        assert lease.state == "Waiting"
        lease._card = KaiCard(on_action=lease._act, group=lease.key)
        return lease

    def test_cancel(self, waiting):
        waiting._act({"kind": "action", "id": "cancel"})

        assert waiting.state == "Cancelled"
        assert waiting._card.view["state"] == "Cancelled"

    def test_why_opens_the_reasons(self, waiting):
        waiting._act({"kind": "action", "id": "why"})

        assert waiting._card.explain["items"]

    def test_a_smaller_offer_is_asked_for_before_the_place_is_given_up(self, waiting):
        card = waiting._card
        offer = encode_json(Submit(kind="lease", gpu="0.25"))
        waiting._act({"kind": "action", "id": "smaller", "submit": offer})
        taken = waiting._session.lease

        assert waiting.state == "Cancelled"
        assert isinstance(taken, Lease)
        assert taken.wait(60).view.request.text == "0.25 GPU"
        assert card.group == taken.key

    def test_output_is_fed_to_a_card_that_cannot_fetch_it(self, cell, monkeypatch):
        cell("%%gang -n 2 --name fed\nimport os\nprint('rank', os.environ['RANK'])")
        handle = kai_jupyter.gang("fed")
        fed = []
        card = KaiCard(on_action=handle._act)
        monkeypatch.setattr(card, "send", fed.append)
        handle._card = card
        handle._act({"kind": "action", "id": "logs"})

        eventually(lambda: sum(len(m["page"]["lines"]) for m in fed) == 2, "both lines")
        assert {line["text"] for m in fed for line in m["page"]["lines"]} == {"rank 0", "rank 1"}

    def test_what_needs_a_page_is_told_on_the_card(self, waiting):
        waiting._act({"kind": "action", "id": "restart_kernel"})

        assert "in a Jupyter page only" in waiting._card.note

    def test_a_wait_goes_on_with_the_offer_that_was_taken(self, waiting):
        offer = encode_json(Submit(kind="lease", gpu="0.25"))
        waiting._act({"kind": "action", "id": "smaller", "submit": offer})

        assert waiting.wait(60).view.request.text == "0.25 GPU"
