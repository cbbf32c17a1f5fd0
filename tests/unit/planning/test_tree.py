"""What starts and what leaves of a group: FORMAT.md, "How `min_subgroups` works", rule by rule."""

import pytest

from scheduler_service.ledger.store import Ledger
from scheduler_service.model.node import Node
from scheduler_service.model.pod import Pod, PodState
from scheduler_service.model.pod_group import PodGroup, SubGroup
from scheduler_service.model.queue import Queue
from scheduler_service.model.snapshot import Snapshot
from scheduler_service.planning import tree
from scheduler_service.planning.leaving import Leaving
from scheduler_service.planning.tree import ABOVE, BELOW, EXACT, Starting

P, R, G, S, L = (
    PodState.PENDING,
    PodState.RUNNING,
    PodState.GATED,
    PodState.SUCCEEDED,
    PodState.RELEASING,
)


def leaf(name, minimum):
    return SubGroup(name, minimum)


def inner(name, need, *children):
    return SubGroup(name, 0, need, children=children)


def book(root, pods):
    """A ledger with one group; `pods` is leaf -> states of its pods, named <leaf>-<n>."""
    members = tuple(
        Pod(
            f"{name}-{number}",
            "default",
            "default/g",
            state,
            name,
            node="n" if state in {R, L} else None,
        )
        for name, of_leaf in pods.items()
        for number, state in enumerate(of_leaf)
    )
    ledger = Ledger.from_snapshot(
        Snapshot(
            nodes=(Node("n", milli_cpu=1000, memory_bytes=1000),),
            queues=(Queue("q"),),
            pod_groups=(PodGroup(name="g", namespace="default", queue="q", gang=root),),
            pods=members,
        )
    )
    return ledger, ledger.groups["default/g"]


def names(ledger, pods):
    return [ledger.pods.models[pod].name for pod in pods]


def chunk(root, pods):
    ledger, group = book(root, pods)
    found = Starting(ledger, group).next_chunk()
    return names(ledger, found.members()) if found else []


def leaving(root, pods):
    ledger, group = book(root, pods)
    return [names(ledger, step) for step in Leaving(ledger, group).steps()]


REPLICAS = inner(
    "", 1, inner("a", None, leaf("a1", 1), leaf("a2", 1)), inner("b", None, leaf("b1", 1))
)


@pytest.mark.parametrize(
    ("root", "pods", "expected"),
    [
        pytest.param(
            inner("", None, leaf("d", 2)), {"d": [P, P, P]}, ["d-0", "d-1"], id="the minimum first"
        ),
        pytest.param(
            inner("", None, leaf("d", 2)), {"d": [R, R, P, P]}, ["d-2"], id="then one at a time"
        ),
        pytest.param(
            inner("", None, leaf("d", 2)), {"d": [R, P, P]}, ["d-1"], id="a lost member alone"
        ),
        pytest.param(
            inner("", None, leaf("d", 3)),
            {"d": [S, R, P]},
            ["d-2"],
            id="who succeeded counts for the minimum",
        ),
        pytest.param(
            inner("", None, leaf("x", 1), leaf("y", 2)),
            {"x": [P, P], "y": [P, P]},
            ["x-0", "y-0", "y-1"],
            id="every leaf's minimum together",
        ),
        pytest.param(
            inner("", None, leaf("x", 1), leaf("y", 2)),
            {"x": [R, P], "y": [R, R, P]},
            ["x-1"],
            id="growth goes to the smaller ratio, equal ones by name",
        ),
        pytest.param(
            REPLICAS, {"a1": [P], "a2": [P], "b1": [P]}, ["a1-0", "a2-0"], id="one of two replicas"
        ),
        pytest.param(
            REPLICAS, {"a1": [P], "b1": [P]}, ["b1-0"], id="a complete replica before another"
        ),
        pytest.param(
            REPLICAS, {"a1": [R], "a2": [R], "b1": [P]}, ["b1-0"], id="a replica more, whole"
        ),
        pytest.param(
            REPLICAS, {"a1": [P], "b1": [R]}, [], id="a replica that is not needed stays out"
        ),
        pytest.param(
            inner("", 3, *(leaf(name, 1) for name in "pqrs")),
            {"p": [R], "q": [R], "r": [P], "s": [P]},
            ["r-0"],
            id="exactly the missing number",
        ),
        pytest.param(
            inner("", None, leaf("x", 0), leaf("y", 1)),
            {"x": [P], "y": [R, P]},
            ["y-1"],
            id="a leaf that needs nothing comes last",
        ),
    ],
)
def test_what_starts_next(root, pods, expected):
    assert chunk(root, pods) == expected


@pytest.mark.parametrize(
    ("root", "pods", "expected"),
    [
        pytest.param(
            inner("", None, leaf("d", 2)),
            {"d": [R, R, R, R]},
            [["d-3"], ["d-2"], ["d-0", "d-1"]],
            id="surplus one at a time, then the gang",
        ),
        pytest.param(
            inner("", 1, leaf("s", 1), leaf("t", 1)),
            {"s": [R, R], "t": [R, R]},
            [["t-1"], ["s-1"], ["t-0"], ["s-0"]],
            id="surplus pods, a whole child, then the rest",
        ),
        pytest.param(
            inner("", None, leaf("x", 0), leaf("y", 1)),
            {"x": [R, R], "y": [R]},
            [["x-1"], ["x-0"], ["y-0"]],
            id="what needs nothing goes first",
        ),
        pytest.param(
            inner("", None, leaf("d", 2)), {"d": [R]}, [["d-0"]], id="the rest of a broken gang"
        ),
    ],
)
def test_what_leaves_next(root, pods, expected):
    assert leaving(root, pods) == expected


@pytest.mark.parametrize(
    ("root", "pods", "expected"),
    [
        (inner("", None, leaf("d", 2)), {"d": [R, P]}, BELOW),
        (inner("", None, leaf("d", 2)), {"d": [R, R, P]}, EXACT),
        (inner("", None, leaf("d", 2)), {"d": [R, R, R]}, ABOVE),
        (inner("", None, leaf("d", 2)), {"d": [R, L]}, BELOW),
        (REPLICAS, {"a1": [R], "a2": [P], "b1": [P]}, BELOW),
        (REPLICAS, {"a1": [R], "a2": [R], "b1": [P]}, EXACT),
        (REPLICAS, {"a1": [R], "a2": [R], "b1": [R]}, ABOVE),
    ],
)
def test_where_a_group_stands(root, pods, expected):
    ledger, group = book(root, pods)

    assert tree.progress(group) == expected
    assert Leaving(ledger, group).progress() == expected


@pytest.mark.parametrize(
    ("pods", "is_ready"),
    [
        ({"d": [P, P]}, True),
        ({"d": [P, G]}, False),
        ({"d": [R, P]}, True),
        ({"d": [R, L]}, False),
        ({"d": [R, S]}, True),
    ],
)
def test_a_group_is_ready_when_the_pods_it_needs_are_there(pods, is_ready):
    _, group = book(inner("", None, leaf("d", 2)), pods)

    assert tree.is_ready(group) is is_ready
