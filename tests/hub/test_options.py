"""What can be chosen at the start page, and what becomes of a choice."""

from __future__ import annotations

import pytest

from kai_jupyter.errors import UsageError
from kai_jupyter.hub.options import (
    SHARES,
    Chosen,
    Offer,
    Share,
    chosen_in,
    extras_of,
    forecast_fields,
    offer_of,
    title_of,
    understood,
    wanted,
)

OFFER = offer_of(
    ["cpu", {"gpu": "0.5", "cpu": 8, "memory": "32GiB"}, "2"],
    [{"name": "torch", "title": "PyTorch", "image": "example.local/torch:1"}],
    takes_memory=True,
)


def test_nothing_said_is_the_first_card() -> None:
    assert understood({}, OFFER) == Chosen(share="cpu")
    assert understood({}, Offer(shares=(Share(id="1", gpu="1"),))).share == "1"


def test_without_a_list_the_usual_shares_are_offered() -> None:
    assert offer_of([], [], takes_memory=True).shares == SHARES


def test_a_form_posts_lists() -> None:
    form = {"share": ["0.5"], "queue": ["team-a"], "profile": [""], "_xsrf": ["secret"]}
    assert chosen_in(form) == {"share": "0.5", "queue": "team-a"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"share": "64"}, "does not start servers with '64'. Choose of: cpu, 0.5, 2."),
        ({"share": "memory"}, "how much GPU memory"),
        ({"share": "0.5", "priority": "first"}, "no priority 'first'"),
        ({"profile": "jax"}, "no environment 'jax'. Choose of: torch."),
    ],
)
def test_what_is_not_offered_is_refused_in_a_sentence(options: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        understood(options, OFFER)


def test_memory_is_not_taken_where_the_owner_does_not_offer_it() -> None:
    offer = offer_of(["cpu"], [], takes_memory=False)
    with pytest.raises(UsageError):
        understood({"share": "memory", "gpu_memory": "8GiB"}, offer)


def test_a_share_is_asked_for_with_what_goes_with_it() -> None:
    chosen = Chosen(share="0.5", queue="team-a", priority="yields")
    ask = wanted(chosen, OFFER, key="server:", process=None)
    assert (ask.kind, ask.gpu, ask.queue, ask.preemptible) == ("server", "0.5", "team-a", True)
    assert (ask.cpu, ask.memory) == (8, "32GiB")
    assert forecast_fields(chosen, OFFER)["preemptible"] == "true"


def test_memory_is_asked_for_with_what_goes_with_the_smallest_share() -> None:
    ask = wanted(Chosen(share="memory", gpu_memory="8GiB"), OFFER, key="", process=None)
    assert (ask.gpu, ask.gpu_memory, ask.cpu) == (None, "8GiB", 8)


def test_the_same_choice_finds_its_place_again_and_another_does_not() -> None:
    def mark(**fields: str) -> str | None:
        return wanted(Chosen(**fields), OFFER, key="server:", process=None).origin.cell_id

    assert mark(share="0.5") == mark(share="0.5", profile="torch")
    assert mark(share="0.5") != mark(share="2")
    assert mark(share="0.5") != mark(share="0.5", priority="yields")


def test_words() -> None:
    assert [title_of(Chosen(share=share)) for share in ("cpu", "0.5", "1", "2")] == [
        "CPU",
        "0.5 GPU",
        "1 GPU",
        "2 GPUs",
    ]
    assert title_of(Chosen(share="memory", gpu_memory="8GiB")) == "8GiB of GPU memory"
    assert extras_of(OFFER.shares[1]) == "8 CPUs, 32 GiB memory"
    assert extras_of(Share(id="x", cpu=1)) == "1 CPU"
    assert extras_of(SHARES[0]) == ""
