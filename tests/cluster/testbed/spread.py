"""How the tests of this folder are spread over several processes, each with a cluster of its own (`--numprocesses`).

A file stays in one process, for what its tests share. Files with the real node stay together and come first, in one
process that lets the node go after them; the longest of the others come next, so that nobody waits for one at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling

REAL_NODE = "real node"
WITH_REAL_NODE = frozenset(
    {
        "test_api_real_node.py",
        "test_companion_real_node.py",
        "test_deploy_real.py",
        "test_kernel_real_node.py",
        "test_sdk_real_node.py",
        "test_sharing_real_node.py",
        "test_testbed_node.py",
        "test_workloads_real.py",
    }
)
LONG = (
    "test_killed_at_work.py",
    "test_scheduler_faults.py",
    "test_make_room.py",
    "test_sharing.py",
    "test_grouping_kuberay.py",
)
"""Files that take long, the longest first."""


def place_of(test: str) -> str:
    """Return what stays together with a test, by its id."""
    name = test.partition("::")[0].rpartition("/")[2]
    return REAL_NODE if name in WITH_REAL_NODE else name


def rank(test: str) -> int:
    """Return when a test is handed out: the lowest first."""
    place = place_of(test)
    if place == REAL_NODE:
        return -1
    return LONG.index(place) if place in LONG else len(LONG)


class Spread(LoadScopeScheduling):
    """Hands out place after place, in the order in which the tests were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return place_of(nodeid)


def scheduling(config: pytest.Config, log: Producer) -> Scheduling:
    """Return who hands the tests out."""
    return Spread(config, log)
