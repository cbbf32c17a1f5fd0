"""What counts as using a device without a lease."""

from __future__ import annotations

import os

import pytest

from scheduler_service.agent.nvml import GpuProcess, GpuState
from scheduler_service.backends.local import foreign
from scheduler_service.backends.local.foreign import ForeignRule
from scheduler_service.backends.local.people import name_of, owner_of, user_of
from scheduler_service.words.foreign import foreign_sentence

USERS = {10: "ana", 11: "ana", 20: "ben", 30: None}


def state(*processes: GpuProcess) -> GpuState:
    return GpuState(
        uuid="GPU-0",
        index=0,
        name="x",
        memory_mib=None,
        used_mib=None,
        utilisation_percent=None,
        is_mig=False,
        processes=processes,
    )


def pids(rule: ForeignRule, *processes: GpuProcess) -> list[int]:
    return [process.pid for process in rule.of(state(*processes))]


@pytest.mark.parametrize(
    ("holders", "found"),
    [
        ({}, [10, 11, 20, 30]),
        ({"GPU-0": {"ana"}}, [20]),
        ({"GPU-0": {"ana", "ben"}}, []),
        ({"GPU-1": {"ana"}}, [10, 11, 20, 30]),
    ],
)
def test_on_a_shared_machine_people_are_told_apart(monkeypatch, holders, found):
    monkeypatch.setattr(foreign, "user_of", USERS.get)
    rule = ForeignRule(shared=True, holders={k: frozenset(v) for k, v in holders.items()})
    assert pids(rule, *(GpuProcess(pid, 100) for pid in USERS)) == found


def test_a_display_server_asks_for_no_lease(monkeypatch):
    """When the box has a screen: Xorg sits on its GPU for ever."""
    monkeypatch.setattr(foreign, "user_of", USERS.get)
    drawing = GpuProcess(20, 100, draws_only=True)
    assert pids(ForeignRule(shared=True), drawing) == []
    monkeypatch.setattr(foreign, "owner_of", lambda _pid: "other")
    assert pids(ForeignRule(), drawing) == []


def test_where_one_person_runs_it_their_own_processes_are_theirs():
    assert pids(ForeignRule(), GpuProcess(os.getpid(), 1)) == []
    assert (owner_of(os.getpid()), user_of(os.getpid())) == ("ours", name_of(os.getuid()))


@pytest.mark.parametrize(("holders", "found"), [({}, [99]), ({"GPU-0": frozenset({"me"})}, [])])
def test_what_can_not_be_seen_is_somebody_elses_unless_we_hold_the_device(
    monkeypatch, holders, found
):
    monkeypatch.setattr(foreign, "owner_of", lambda _pid: "unseen")
    assert pids(ForeignRule(holders=holders), GpuProcess(99, 1)) == found


def test_the_sentence_names_who_which_and_since_when():
    text = foreign_sentence(1, "ben", 42, since=0, now=0)
    assert text.startswith("GPU 1 is used by ben without a lease (process 42, since ")
    assert foreign_sentence(1, "", 42, since=0, now=0).startswith("GPU 1 is used by somebody")


def test_an_account_without_a_name_is_its_number():
    assert name_of(2**31 - 7) == str(2**31 - 7)
    assert user_of(2**30) is None
