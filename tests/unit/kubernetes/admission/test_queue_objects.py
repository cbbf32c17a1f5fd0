"""What a Queue must look like and when it may go."""

import pytest

from scheduler_service.backends.kubernetes.admission.facts import QueueFacts
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.review import Request
from scheduler_service.backends.kubernetes.admission.rules import VALIDATE_QUEUE, judge, wants
from tests.unit.kubernetes.admission.requests import OPTIONS, change, creation, known

STRICT = Options(strict_queues=True)


def queue(name="q", parent="", **resources):
    spec = {"resources": resources or {"gpu": {"quota": 1, "limit": -1}}}
    return {"metadata": {"name": name}, "spec": spec | ({"parentQueue": parent} if parent else {})}


def facts_of(name, parent="", **quota):
    return QueueFacts(name, parent=parent, shares={k: {"quota": v} for k, v in quota.items()})


def answer(request, facts=None, options=OPTIONS):
    return judge(VALIDATE_QUEUE, request, facts or known(), options, token="t")


def made(obj):
    return creation(obj, kind="Queue", name=obj["metadata"]["name"])


def deletion(name):
    return Request(operation="DELETE", kind="Queue", name=name, old=queue(name))


def test_a_plain_queue_is_let_in_without_a_word():
    told = answer(made(queue()))
    assert told.is_allowed
    assert told.warnings == ()


def test_a_queue_without_resources_is_told():
    bare = {"metadata": {"name": "q"}, "spec": {}}
    assert "no spec.resources" in answer(made(bare)).warnings[0]


@pytest.mark.parametrize("field", ["quota", "limit"])
@pytest.mark.parametrize("kind", ["gpu", "cpu", "memory"])
def test_no_number_is_below_zero_but_the_one_that_means_no_bound(kind, field):
    assert (
        f"resources.{kind}.{field} is -2" in answer(made(queue(**{kind: {field: -2}}))).refusals[0]
    )
    assert answer(made(queue(**{kind: {field: -1, "limit": -1}}))).is_allowed


def test_no_weight_is_below_zero():
    assert "overQuotaWeight" in answer(made(queue(gpu={"overQuotaWeight": -1}))).refusals[0]


def test_a_quota_above_its_limit_is_told():
    assert "above its limit" in answer(made(queue(gpu={"quota": 4, "limit": 2}))).warnings[0]


def test_a_parent_may_come_after_its_child_unless_told_otherwise():
    orphan = made(queue(parent="later"))
    assert answer(orphan).is_allowed
    assert "There is no queue 'later'" in answer(orphan).warnings[0]
    assert "There is no queue 'later'" in answer(orphan, options=STRICT).refusals[0]


def test_no_queue_is_above_itself():
    assert "q → q" in answer(made(queue(parent="q"))).refusals[0]
    facts = known(facts_of("a", parent="b"), facts_of("b", parent="q"), facts_of("q"))
    told = answer(change(queue(), queue(parent="a"), kind="Queue"), facts)
    assert "q → a → b → q" in told.refusals[0]


def test_a_parent_that_was_made_just_now_is_asked_for():
    assert wants(VALIDATE_QUEUE, made(queue(parent="new")), OPTIONS).queues == {"new"}
    assert wants(VALIDATE_QUEUE, made(queue()), OPTIONS).queues == frozenset()


def test_a_cycle_further_up_does_not_hang():
    facts = known(facts_of("a", parent="b"), facts_of("b", parent="a"))
    assert answer(made(queue(parent="a")), facts).is_allowed


def test_quotas_that_can_not_all_be_kept_are_told():
    facts = known(facts_of("top", gpu=4), facts_of("one", parent="top", gpu=3))
    told = answer(made(queue(parent="top", gpu={"quota": 2, "limit": -1})), facts)
    assert "add up to 5, more than its own 4" in told.warnings[0]
    fits = answer(made(queue(parent="top", gpu={"quota": 1, "limit": -1})), facts)
    assert fits.warnings == ()


def test_no_bound_is_more_than_any_number():
    below = known(facts_of("top", gpu=-1), facts_of("one", parent="top", gpu=3))
    assert answer(made(queue(parent="top")), below).warnings == ()
    above = known(facts_of("top", gpu=4))
    told = answer(made(queue(parent="top", gpu={"quota": -1, "limit": -1})), above)
    assert "no bound" in told.warnings[0]


def test_a_queue_with_live_work_is_not_deleted():
    assert wants(VALIDATE_QUEUE, deletion("q"), OPTIONS).workloads_of == "q"
    facts = known("q", live_groups=("team-a/one", "team-a/two", "team-a/x", "team-a/y"))
    (sentence,) = answer(deletion("q"), facts).refusals
    assert "still has work: team-a/one, team-a/two, team-a/x and 1 more" in sentence


def test_a_queue_with_queues_below_it_may_go_but_it_is_told():
    facts = known("q", facts_of("below", parent="q"))
    assert answer(deletion("q"), facts).is_allowed
    assert "has queues below it: below" in answer(deletion("q"), facts).warnings[0]
    assert not answer(deletion("q"), facts, STRICT).is_allowed


def test_an_empty_queue_goes_without_a_word():
    assert answer(deletion("q"), known("q")) == answer(deletion("q"), known())


def test_a_queue_that_can_not_be_read_is_refused_with_the_place():
    broken = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": "many"}}}}
    assert "quota" in answer(made(broken)).refusals[0]
