from __future__ import annotations

import socket

import pytest

from scheduler_service.runner.cores import CoreBook
from scheduler_service.runner.environment import LOOPBACK
from scheduler_service.runner.ports import PortReservation, tells_of_clash


def test_ports_are_held_until_they_are_let_go() -> None:
    with PortReservation(3) as reservation:
        ports = reservation.ports
        assert ports is not None
        numbers = {ports.master, *ports.ranks}
        assert len(numbers) == 4
        for number in numbers:
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((LOOPBACK, number))
    with socket.create_server((LOOPBACK, ports.master)):
        pass


def test_without_workers_no_port_is_taken() -> None:
    with PortReservation(None) as reservation:
        assert reservation.ports is None


@pytest.mark.parametrize(
    ("text", "is_clash"),
    [
        ("OSError: [Errno 98] Address already in use", True),
        ("The server socket has failed to bind to [::]:29500 (errno: 98 - EADDRINUSE).", True),
        ("[LightGBM] [Fatal] Binding port 12400 failed", True),
        ("connection refused", False),
    ],
)
def test_a_taken_port_is_known_by_its_words(text: str, is_clash: bool) -> None:
    assert tells_of_clash(text) is is_clash


def test_pods_are_spread_over_the_cpus() -> None:
    book = CoreBook((0, 1, 2, 3))
    assert book.take("a", 1500) == (0, 1)
    assert book.take("b", 2000) == (2, 3)
    assert book.take("c", 1000) == (0,)
    book.release("a")
    assert book.take("d", 1000) == (1,)


def test_no_amount_and_the_whole_machine_are_not_pinned() -> None:
    book = CoreBook((0, 1))
    assert book.take("a", 0) == ()
    assert book.take("b", 2000) == ()
