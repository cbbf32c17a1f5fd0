"""A function goes from a notebook into pods of the real node, and its value comes back: by our SDK, through our API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import pytest

from kai_jupyter import gang
from kai_jupyter.errors import GangFailed
from kai_jupyter.session import Session
from tests.cluster.notebook_bed import Desk, desk, notebook
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.real_node import RealNode

SLOW_S = 600


@pytest.fixture(scope="module")
def place(
    kai_cluster: Cluster,
    real_node: RealNode,
    say: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    with desk(kai_cluster, say, tmp_path_factory.mktemp("kept")) as found:
        yield found
    kai_cluster.clean()


@pytest.fixture
def ana(place: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a notebook defines
    session = notebook(place, tmp_path, monkeypatch)
    yield session
    session.close()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def scaled(x: int, *, by: int) -> dict[str, object]:
    """Say where it ran, and multiply."""
    import os

    print("computing", x)  # noqa: T201 - its output
    return {"value": x * by, "pod": os.environ["KAI_POD"], "home": os.environ["HOME"]}


def test_a_function_runs_in_a_pod_and_its_value_comes_back(ana: Session) -> None:
    handle = gang(n=1, name="scaled")(scaled)(21, by=2)
    value = handle.result(SLOW_S)
    assert value == {"value": 42, "pod": handle.name, "home": "/home/jovyan"}
    page = ana.client.logs(handle.view.namespace, handle.name)
    assert [line.text for line in page.lines] == ["computing 21"]
    again = gang(handle.name)  # as after a restart of the kernel: by its name alone
    assert again.values() == {"value": value}


def summed(own: int) -> tuple[int, str]:
    """Add what every worker has, by the addresses that each was told."""
    import os
    import socket
    import time

    rank, hosts = int(os.environ["RANK"]), os.environ["KAI_GANG_HOSTS"].split(",")
    host, port = hosts[0].rsplit(":", 1)
    mine = own + rank
    if rank:
        while True:
            try:
                with socket.create_connection((host, int(port)), 5) as peer:
                    peer.sendall(b"%d\n" % mine)
                    return int(peer.makefile().readline()), os.environ["NVIDIA_VISIBLE_DEVICES"]
            except OSError:
                time.sleep(0.1)
    with socket.create_server(("", int(port))) as door:
        peers = [door.accept()[0] for _ in hosts[1:]]
        total = mine + sum(int(peer.makefile().readline()) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d\n" % total)
    return total, os.environ["NVIDIA_VISIBLE_DEVICES"]


def test_a_gang_adds_up_over_the_addresses_it_is_told(ana: Session) -> None:
    handle = gang(n=3, gpu=1, name="summed")(summed)(10)
    first = handle.result(SLOW_S)
    found = [first, handle.result(rank=1), handle.result(rank=2)]
    assert {total for total, _ in found} == {33}
    assert len({device for _, device in found}) == 3, "each has a device of its own"


def broken(x: int) -> int:
    """Fail in the second line."""
    y = x - 1
    return x // y


def test_a_failure_comes_back_with_its_line(ana: Session) -> None:
    handle = gang(n=1, name="broken")(broken)(1)
    with pytest.raises(GangFailed) as told:
        handle.result(SLOW_S)
    assert "ZeroDivisionError" in str(told.value)
    failure = handle.view.failure
    assert failure is not None
    assert failure.source is not None
    lines = failure.source.splitlines()
    assert lines[(failure.cell_line or 0) - 1].strip() == "return x // y"
