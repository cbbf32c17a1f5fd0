"""`%gpu` in a terminal shell against the real embedded service."""

import os

import pytest

from kai_jupyter import gpu
from kai_jupyter.errors import KaiRequestError, NotGranted, UsageError, WaitInterrupted
from kai_jupyter.gpu_magics import GpuCellFailed
from tests.jupyter.conftest import fill

pytestmark = pytest.mark.process


def test_a_share_is_granted_and_told_in_words(cell, shell):
    told = cell("h = %gpu 0.5 --wait")

    assert "0.5 GPU, 12 GiB memory share, queue default" in told
    assert "simulated" in told
    assert os.environ["KAI_GPU_DEVICES"].startswith("GPU-sim-")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert shell.user_ns["h"].is_granted


def test_release_gives_everything_back(cell, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    cell("%gpu 0.5 --wait")

    assert "Released" in cell("%gpu release")
    assert "KAI_GPU_DEVICES" not in os.environ
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"


def test_running_the_cell_again_keeps_the_lease(cell, shell):
    cell("first = %gpu 0.5 --wait")
    cell("again = %gpu 0.5")

    assert shell.user_ns["first"].key == shell.user_ns["again"].key


def test_another_amount_while_a_lease_is_held_is_told(cell):
    cell("%gpu 0.5 --wait")

    with pytest.raises(UsageError, match=r"already has a lease: 0.5 GPU .*%gpu release"):
        cell("%gpu 1")


def test_what_is_more_than_free_waits_with_a_place_and_can_be_withdrawn(cell, embedded):
    with embedded.client() as client:
        other = fill(client)
        told = cell("h = %gpu 1")

        assert "Waiting" in told
        assert "Position 1 of 1" in told
        assert "%gpu why" in told
        assert "ancelled" in cell("%gpu release")
        client.cancel(other.namespace, other.name, grace_s=0)


def test_why_gives_the_reasons(cell, embedded):
    with embedded.client() as client:
        fill(client)
        cell("%gpu 1")

        told = cell("%gpu why")
        assert "1  " in told
        assert len(told.splitlines()) > 1


def test_a_lease_that_waited_is_granted_when_another_ends(cell, embedded, shell):
    with embedded.client() as client:
        other = fill(client)
        cell("h = %gpu 1")
        client.cancel(other.namespace, other.name, grace_s=0)
        cell("h.wait(60)")

        assert shell.user_ns["h"].is_granted


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%gpu 0", "0"),
        ("%gpu -0.5", "0.5"),
        ("%gpu nan", "nan"),
        ("%gpu 1.5", "1.5"),
        ("%gpu half", "half"),
        ("%gpu --memory 80GiB", "80 GiB"),
        ("%gpu 0.5 --memory 8GiB", "memory"),
        ("%gpu 0.5 --queue nowhere", "nowhere"),
        ("%gpu 16", "16"),
    ],
)
def test_bad_requests_get_a_sentence_and_no_traceback(cell, line, what):
    with pytest.raises(KaiRequestError) as told:
        cell(line)

    assert what in str(told.value)
    assert str(told.value).endswith((".", "?"))
    assert "Traceback" not in cell.output + cell.errors


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%gpu 0.5 --for soon", "--for takes a duration"),
        ("%gpu 0.5 --wait 10", "--wait takes a duration"),
        ("%gpu 0.5 0.25", "takes one amount"),
        (
            "%gpu 0.5 --quee team-a",
            r"Did you mean --queue instead of --quee\? %gpu\? shows all options\.",
        ),
        ("%gpu 0.5 --zzz", r"unrecognized arguments: --zzz\. %gpu\? shows all options\."),
        ("%gpu 0.5 --queue", r"--queue: expected one argument\. %gpu\?"),
        ("%%gang --workerss 4\npass", "Did you mean --workers instead of --workerss"),
        ("%gpu 0.5 --wait -3s", "^A duration is positive, such as 10m; '-3s' is not"),
        ("%gpu 0.5 --for -1h30m", "^A duration is positive, such as 10m; '-1h30m' is not"),
        ("%gpu 0.5 --for=-3s", "^--for takes a positive duration, such as 10m; '-3s' is not"),
        ("%gpu extend -5m", "^A duration is positive, such as 10m; '-5m' is not"),
        ("%gpu --memory -8GiB", "^An amount is positive, such as 8GiB; '-8GiB' is not"),
        ("%gpu -0.5 --zzz", "unrecognized arguments: --zzz"),
        ("%gpu 0.5 --devices two", "^--devices takes a whole number, not 'two'; for example"),
        ("%gpu 0.5 --priority 1.5", "^--priority takes a whole number, not '1.5'; for example"),
        ("%%gang -n two\npass", "^-n takes a whole number, not 'two'; for example -n 4"),
        ("%gang logs x --rank first", "^--rank takes a whole number, not 'first'; for example"),
        ("%gang ls train", "%gang show NAME"),
    ],
)
def test_what_cannot_be_understood_is_told_before_anything_is_asked(cell, embedded, line, what):
    with pytest.raises(UsageError, match=what):
        cell(line)


def test_without_a_lease_the_choices_are_shown_with_their_forecast(cell):
    told = cell("%gpu")

    assert "This notebook holds no GPU" in told
    assert "0.25 GPU" in told
    assert "now" in told
    assert "The GPUs are simulated." in told


@pytest.mark.parametrize("word", ["release", "why", "extend 1h"])
def test_without_a_lease_there_is_nothing_to_obey(cell, word):
    with pytest.raises(NotGranted, match="This notebook has no lease"):
        cell(f"%gpu {word}")


def test_extend_keeps_it_longer(cell, shell):
    cell("h = %gpu 0.5 --for 1h --wait")
    first = shell.user_ns["h"].view.expires_at
    cell("%gpu extend 1h")

    assert shell.user_ns["h"].view.expires_at == first + 3_600_000


def test_a_lease_without_an_end_can_not_be_extended_and_says_so(cell):
    cell("%gpu 0.5 --wait")

    with pytest.raises(KaiRequestError, match=r"^Nothing to extend\. This lease has no end\. "):
        cell("%gpu extend 10m")


def test_a_cell_on_a_share_runs_when_granted_and_releases_after(cell, embedded):
    told = cell("%%gpu 0.5\nimport os\nprint('on', os.environ['KAI_GPU_DEVICES'])")

    assert "on GPU-sim-" in told
    assert "KAI_GPU_DEVICES" not in os.environ
    with embedded.client() as client:
        assert [v.state for v in client.groups(state="Running").items] == []


def test_a_cell_that_fails_on_its_share_releases_it_too(cell, embedded):
    with pytest.raises(GpuCellFailed):
        cell("%%gpu 0.5\n1 / 0")

    assert "ZeroDivisionError" in cell.output
    assert "KAI_GPU_DEVICES" not in os.environ


def test_ctrl_c_while_a_cell_waits_for_its_share_withdraws_the_request(
    cell, embedded, shell, monkeypatch
):
    from kai_jupyter.leases import Lease

    with embedded.client() as client:
        fill(client)
        monkeypatch.setattr(Lease, "wait", _interrupted)
        with pytest.raises(WaitInterrupted, match="The request was withdrawn"):
            cell("%%gpu 1\nprint('never')")

        assert "never" not in cell.output
        assert client.groups(state="Waiting").items == ()


def test_gpu_as_a_context_manager_holds_the_share_inside(embedded, shell):
    with gpu(0.5) as lease:
        assert lease.is_granted
        inside = os.environ["KAI_GPU_DEVICES"]

    assert inside.startswith("GPU-sim-")
    assert lease.state != "Running"


def test_a_lease_that_is_ended_elsewhere_leaves_this_process_in_place(cell, shell, embedded):
    """Ended on the panel, by a lead or by the clock: the kernel hears of it and lets go."""
    cell("h = %gpu 0.5 --wait")
    lease = shell.user_ns["h"]
    with embedded.client() as client:
        client.cancel(lease.view.namespace, lease.name)

    assert lease.wait_until(lambda _: lease.is_over and not lease._session.devices.is_set, 60)
    assert "KAI_GPU_DEVICES" not in os.environ
    assert cell("%gpu").startswith("This notebook holds no GPU")


def test_a_lease_ends_when_its_time_is_over(cell, shell):
    cell("h = %gpu 0.5 --for 1s")

    assert shell.user_ns["h"].wait_until(lambda view: bool(view.ended_at), 60)
    assert "time was over" in shell.user_ns["h"].text


def test_a_place_is_given_up_after_the_longest_wait(cell, embedded):
    with embedded.client() as client:
        fill(client)
        with pytest.raises(NotGranted):
            cell("%gpu 1 --wait 1s")

        assert client.groups(state="Waiting").items == ()


def test_help_names_the_options(cell, shell):
    info = shell.object_inspect("%gpu")

    assert "--memory" in info["docstring"]


def test_completion_offers_queues_and_words(shell, cell):
    cell("%gpu 0.25 --wait")

    assert "default" in _completions(shell, "%gpu 0.5 --queue ")
    assert "release" in _completions(shell, "%gpu rel")
    assert "--out" in _completions(shell, "%%gang --o")


def _completions(shell, line):
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        return [c.text for c in shell.Completer.completions(line, len(line))]


def _interrupted(_lease, _timeout=None):
    raise KeyboardInterrupt


def test_a_terminal_can_not_move_to_another_kernel(cell):
    with pytest.raises(UsageError, match="this is a terminal"):
        cell("%gpu --move")
    with pytest.raises(UsageError, match="stands alone"):
        cell("%gpu release --move")
