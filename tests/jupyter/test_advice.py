"""What the reasons advise and people type: it ends the request that it names, and nothing else."""

import pytest

from kai_jupyter.client import signing_key
from kai_jupyter.errors import KaiRequestError, UsageError
from scheduler_service.service.reasons_told import ENDS
from scheduler_service.wire.pod_group import TERMINAL_STATES, Submit, Work
from scheduler_service.wire.signing import sign_work
from tests.jupyter.conftest import eventually, fill

pytestmark = pytest.mark.process

HELD = frozenset({"Starting", "Running"})


@pytest.fixture
def client(embedded):
    with embedded.client() as client:
        yield client


@pytest.fixture
def live(client):
    """Return the names of what has not ended, nor been asked to, among this test's own."""

    def names():
        return {v.name for v in client.groups(mine=True).items if not _is_ending(v)}

    return names


def _is_ending(view):
    return view.state in TERMINAL_STATES or view.state == "Stopping"


def work(client, kind, name, gpu=2):
    """Let work of this person hold devices until it is ended."""
    sleeps = Work(command=("sleep", "600"))
    ask = Submit(
        kind=kind, name=name, gpu=gpu, preemptible=False, work=sleeps, signature=sign_work(signing_key(), sleeps)
    )  # fmt: skip
    return client.submit(ask)


def holding(client, kind):
    """Return what of this kind, of this person, holds both GPUs."""
    view = fill(client) if kind == "lease" else work(client, kind, f"holds-{kind}")
    eventually(lambda: client.group(view.namespace, view.name).state in HELD, "it holds its GPUs")
    return view


def advised(client, view):
    """Return the lines of code of an explanation: to end something, and offers."""
    told = client.explain(view.namespace, view.name)
    ends = [item.action.code for item in told.items if item.action and item.action.code]
    return ends, [offer.code for offer in told.would_help if offer.code]


@pytest.mark.parametrize("kind", ENDS)
def test_an_advice_that_is_followed_ends_what_it_names_and_nothing_else(
    cell, shell, client, live, kind
):
    held = holding(client, kind)
    cell("h = %gpu 0.5")
    mine = shell.user_ns["h"]
    (code,), _ = advised(client, mine.view)
    assert code in cell("%gpu why")
    other = work(client, "batch", f"also-waits-{kind}")
    assert live() == {held.name, mine.name, other.name}

    cell(code)

    assert live() == {mine.name, other.name}
    cell("h.wait(60)")
    assert mine.is_granted


def test_an_offer_that_is_typed_where_one_waits_ends_nothing(cell, shell, client, live):
    fill(client, gpu=1)
    fill(client, gpu="0.5")
    cell("h = %gpu 1")
    mine = shell.user_ns["h"]
    before = live()
    eventually(lambda: advised(client, mine.view)[1], "there are offers")

    for code in advised(client, mine.view)[1]:
        with pytest.raises(UsageError, match="already has a lease"):
            cell(code)
    assert live() == before


def test_a_notebook_without_a_lease_releases_the_lease_that_it_names(cell, client, live):
    first, second = fill(client, gpu=1), fill(client, gpu=1)

    assert "Released" in cell(f"%gpu release {first.name}")
    assert live() == {second.name}


def test_another_lease_is_released_and_the_devices_of_this_notebook_stay(cell, shell, client, live):
    other = fill(client, gpu=1)
    cell("h = %gpu 1 --wait")
    cell(f"%gpu release {other.namespace}/{other.name}")

    assert live() == {shell.user_ns["h"].name}
    assert shell.user_ns["h"]._session.devices.is_set


def test_its_own_name_is_as_good_as_none(cell, shell, client, live):
    cell("h = %gpu 1 --name its-own --wait")
    mine = shell.user_ns["h"]

    assert "Released" in cell(f"%gpu release {mine.name}")
    assert not mine._session.devices.is_set
    assert live() == set()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%gpu release nobody", "There is no request .*/nobody"),
        ("%gpu release {over}", r"{over} has ended already; nothing was released\."),
        ("%gpu release {work}", r"{work} is no lease; nothing was released\. %gang stop {work} "),
        ("%gpu release {work} {over}", "takes one name; '{work} {over}' are 2"),
        ("%gpu release --name {over}", "%gpu release takes no options.*%gpu release NAME"),
        ("%gpu why {over}", "%gpu why takes nothing more; you wrote '{over}'"),
        ("%gpu status {over}", "%gpu status takes nothing more; you wrote '{over}'"),
        ("%gpu extend forever {over}", "extend takes a duration"),
        ("%gpu extend 1h --name {over}", "%gpu extend takes no options"),
        ("%gang stop --name {work}", "%gang stop takes no options but --rank"),
    ],
)
def test_what_cannot_be_obeyed_as_it_stands_ends_nothing(cell, client, live, line, what):
    over = fill(client, gpu=1)
    client.cancel(over.namespace, over.name, grace_s=0)
    eventually(lambda: client.group(over.namespace, over.name).ended_at, "it is over")
    names = {"over": over.name, "work": work(client, "gang", "work", gpu=1).name}
    cell("h = %gpu 0.5")
    before = live()

    with pytest.raises((UsageError, KaiRequestError), match=what.format(**names)):
        cell(line.format(**names))
    assert live() == before
