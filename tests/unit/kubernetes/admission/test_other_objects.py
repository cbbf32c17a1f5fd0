"""Pod groups and topologies: trees that make sense, aliases that mean one level."""

import pytest

from scheduler_service.backends.kubernetes.admission.rules import (
    VALIDATE_GROUP,
    VALIDATE_TOPOLOGY,
    judge,
)
from tests.unit.kubernetes.admission.requests import OPTIONS, change, creation, known


def group(*subs, **spec):
    return {"metadata": {"name": "pg"}, "spec": {"queue": "q", "subGroups": list(subs), **spec}}


def sub(name, **more):
    return {"name": name, **more}


def answer(obj, *, is_update=False):
    request = change(obj, obj, kind="PodGroup") if is_update else creation(obj, kind="PodGroup")
    return judge(VALIDATE_GROUP, request, known("q"), OPTIONS, token="t")


@pytest.mark.parametrize(
    "fine",
    [
        group(),
        group(minMember=0),
        group(sub("a", minMember=1), sub("b", minMember=0)),
        group(sub("top"), sub("a", parent="top", minMember=1), minSubGroup=1),
        group(sub("top", minSubGroup=1), sub("a", parent="top", minMember=1)),
    ],
)
def test_a_group_that_makes_sense_is_let_in_without_a_word(fine):
    told = answer(fine)
    assert told.is_allowed
    assert told.warnings == ()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (group(minMember=1, minSubGroup=1), "The group has both"),
        (group(sub("a", minMember=1, minSubGroup=1)), "'a' has both"),
        (group(sub("a", minMember=1), sub("a", minMember=2)), "'a' stands 2 times"),
        (group(sub("a", minMember=1, parent="x")), "'x', which does not exist"),
        (group(sub("a", parent="b"), sub("b", parent="a")), "'a' is a part of itself"),
        (group(sub("a", parent="a")), "'a' is a part of itself"),
        (group(sub("a", minSubGroup=1)), "has no parts"),
        (group(sub("a")), "has no minMember"),
        (group(sub("top", minMember=1), sub("a", parent="top", minMember=1)), "has parts"),
    ],
)
def test_a_group_that_can_never_be_right_is_refused(wrong, says):
    assert says in answer(wrong).refusals[0]


def test_a_minimum_beside_parts_is_only_told_later():
    old = group(sub("top", minMember=1), sub("a", parent="top", minMember=1))
    told = answer(old, is_update=True)
    assert told.is_allowed
    assert "has parts" in told.warnings[0]


def test_more_parts_than_there_are_is_told():
    told = answer(group(sub("a", minMember=1), minSubGroup=2))
    assert told.is_allowed
    assert "needs 2 of its parts but has 1" in told.warnings[0]


def test_all_faults_of_minima_are_told_in_order_of_name():
    told = answer(group(sub("b"), sub("a", minSubGroup=1))).refusals
    assert "'a'" in told[0]
    assert "'b'" in told[1]


def topology(*levels):
    return creation({"spec": {"levels": list(levels)}}, kind="Topology")


def level(label, alias=None):
    return {"nodeLabel": label} | ({"alias": alias} if alias else {})


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ((level("zone", "z"), level("rack", "r")), ""),
        ((level("zone", "z"), level("rack", "z")), "stands for 2 levels"),
        ((level("zone", "rack"), level("rack")), "also the node label"),
    ],
)
def test_an_alias_means_one_level(levels, says):
    told = judge(VALIDATE_TOPOLOGY, topology(*levels), known(), OPTIONS, token="t").refusals
    assert says in " ".join(told)
    assert bool(told) is bool(says)
