"""Who calls on the machine's socket: an account, its groups, and what follows from them."""

from __future__ import annotations

import asyncio
import os
import socket
import stat

import pytest

from scheduler_service.api.authenticators import Credentials
from scheduler_service.api.machine_socket import listen_at, peer_uid
from scheduler_service.api.peers import BELIEVED_S, Account, PeerAuthenticator, account_of
from scheduler_service.errors import ConfigurationError, RequestError
from scheduler_service.model.queue import Queue
from scheduler_service.settings.queue_file import QueueConfig, QueueRules

QUEUES = QueueConfig(
    queues=(Queue("research"), Queue("vision", parent="research"), Queue("batch")),
    rules={
        "research": QueueRules(leads=("user:lea",)),
        "vision": QueueRules(leads=("group:vision-leads",)),
    },
)
PEOPLE = {
    0: Account("root", frozenset({"root"})),
    1: Account("ana", frozenset({"ana", "staff"})),
    2: Account("lea", frozenset({"lea"})),
    3: Account("vic", frozenset({"vic", "vision-leads"})),
    4: Account("adm", frozenset({"kai-admin"})),
}


class Desk:
    """The accounts of a machine, and a clock."""

    def __init__(self):
        self.people = dict(PEOPLE)
        self.asked = []
        self.now = 0.0
        self.peers = PeerAuthenticator(
            queues=lambda: QUEUES,
            admin_group="kai-admin",
            look_up=self.look_up,
            clock=lambda: self.now,
        )

    def look_up(self, uid):
        self.asked.append(uid)
        return self.people.get(uid)

    def caller(self, uid, token=None):
        return asyncio.run(self.peers.caller_of(Credentials(token=token, peer_uid=uid)))


@pytest.mark.parametrize(
    ("uid", "scopes"),
    [
        (0, {"read", "request", "admin"}),
        (1, {"read", "request"}),
        (2, {"read", "request", "lead:research", "lead:vision"}),
        (3, {"read", "request", "lead:vision"}),
        (4, {"read", "request", "admin"}),
    ],
)
def test_what_an_account_may_follows_from_its_groups_and_the_queue_file(uid, scopes):
    caller = Desk().caller(uid)
    assert (caller.user, caller.groups) == (PEOPLE[uid].user, PEOPLE[uid].groups)
    assert caller.scopes == scopes


def test_a_number_without_an_account_is_told_so():
    with pytest.raises(RequestError) as error:
        Desk().caller(77)
    assert (error.value.status, "77" in str(error.value)) == (401, True)


def test_who_sends_a_token_is_judged_by_it_alone():
    """When a hub, which runs as root, passes a person's token on."""
    assert Desk().caller(0, token="somebody's") is None
    assert Desk().caller(None) is None


def test_a_group_that_was_taken_away_is_seen_soon():
    desk = Desk()
    assert desk.caller(4).is_admin
    desk.people[4] = Account("adm", frozenset())
    assert desk.caller(4).is_admin
    assert desk.asked == [4]
    desk.now += BELIEVED_S
    assert not desk.caller(4).is_admin


def test_the_system_is_asked_for_names_and_groups():
    account = account_of(os.getuid())
    assert account is not None
    assert account.user
    assert account_of(2**31 - 7) is None


def test_the_socket_is_for_everybody_and_says_who_connected(tmp_path):
    path = tmp_path / "kai.sock"
    with listen_at(path) as listening, socket.socket(socket.AF_UNIX) as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert sorted(item.name for item in tmp_path.iterdir()) == ["kai.sock"]
        client.connect(str(path))
        connected, _ = listening.accept()
        with connected:
            assert peer_uid(connected) == os.getuid()
        with pytest.raises(ConfigurationError, match="Another service listens"):
            listen_at(path)


def test_the_socket_of_a_service_that_was_killed_is_taken_over(tmp_path):
    path = tmp_path / "kai.sock"
    listen_at(path).close()
    assert path.is_socket()
    listen_at(path).close()


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(ConfigurationError, match=r"can not listen at .*tmpfiles"):
        listen_at(tmp_path / "nowhere" / "kai.sock")
