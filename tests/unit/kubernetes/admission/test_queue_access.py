"""Who may ask which queue, from where, and through whom."""

import pytest

from scheduler_service.backends.kubernetes.admission.facts import QueueFacts
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.rules import (
    VALIDATE_GROUP,
    VALIDATE_OTHERS,
    VALIDATE_POD,
    VALIDATE_WORKLOAD,
    judge,
    wants,
)
from tests.unit.kubernetes.admission.requests import (
    ANA,
    JOBS,
    OPTIONS,
    OURS,
    change,
    creation,
    known,
    pod,
)

OPEN = QueueFacts("open")
OF_ANA = QueueFacts("of-ana", subjects=(f"user:{ANA}",))
OF_VISION = QueueFacts("of-vision", subjects=("group:vision",))
OF_B = QueueFacts("of-b", namespaces=("team-b",))
BOTH = QueueFacts("both", subjects=("*",), namespaces=("team-a", "team-b"))
FACTS = known(
    OPEN, OF_ANA, OF_VISION, OF_B, BOTH, QueueFacts("top"), QueueFacts("leaf", parent="top")
)
OPERATOR = "system:serviceaccount:operators:training"


def asking(queue, **more):
    return pod(labels={"kai.scheduler/queue": queue}, **more)


def answer(request, path=VALIDATE_POD, options=OPTIONS, facts=FACTS):
    return judge(path, request, facts, options, token="t")


@pytest.mark.parametrize("queue", ["open", "of-ana", "both"])
def test_whoever_may_is_let_in(queue):
    assert answer(creation(asking(queue))).is_allowed


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        ("of-vision", "is none of its subjects"),
        ("of-b", "can not be asked from the namespace 'team-a'. Its namespaces are: team-b"),
        ("nowhere", "There is no queue 'nowhere'"),
    ],
)
def test_whoever_may_not_is_told_why_and_what_to_do(queue, says):
    (sentence,) = answer(creation(asking(queue))).refusals
    assert says in sentence


def test_a_group_opens_the_queue():
    assert answer(creation(asking("of-vision"), groups=["vision"])).is_allowed


def test_a_queue_that_names_nobody_serves_nobody():
    closed = known(QueueFacts("closed", subjects=()), QueueFacts("nowhere", namespaces=()))
    for queue in ("closed", "nowhere"):
        assert not answer(creation(asking(queue)), facts=closed).is_allowed


def test_relabelling_a_waiting_pod_is_judged_like_asking():
    assert not answer(change(asking("open"), asking("of-vision"))).is_allowed
    assert answer(change(asking("of-vision"), asking("of-vision"))).is_allowed


def test_a_pod_made_by_a_controller_is_judged_by_its_namespace():
    assert answer(creation(asking("of-vision", owner="job"), user=JOBS)).is_allowed
    assert not answer(creation(asking("of-b", owner="job"), user=JOBS)).is_allowed
    assert not answer(creation(asking("of-vision"), user=JOBS)).is_allowed


def test_an_operator_is_trusted_only_where_it_is_named():
    made = creation(asking("of-vision", owner="x"), user=OPERATOR)
    assert not answer(made).is_allowed
    assert answer(made, options=Options(trusted=frozenset({OPERATOR}))).is_allowed


def test_our_api_has_judged_already():
    assert answer(creation(asking("of-vision"), user=OURS)).is_allowed


def test_a_queue_with_queues_below_it_is_told_but_let_in():
    told = answer(creation(asking("top")))
    assert told.is_allowed
    assert "choose one of them: leaf" in told.warnings[0]


def test_a_bare_pod_without_a_label_asks_the_default_queue():
    bare = creation(pod())
    assert wants(VALIDATE_POD, bare, OPTIONS).queues == {"default-queue"}
    assert answer(bare).is_allowed
    guarded = known(QueueFacts("default-queue", subjects=("group:vision",)))
    assert not answer(bare, facts=guarded).is_allowed


TEMPLATE = {"metadata": {"labels": {"kai.scheduler/queue": "of-vision"}}}


@pytest.mark.parametrize(
    "workload",
    [
        {"metadata": {"labels": {"kai.scheduler/queue": "of-vision"}}},
        {"metadata": {}, "spec": {"template": TEMPLATE}},
        {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
    ],
)
def test_whoever_names_a_queue_on_any_object_is_judged(workload):
    made = creation(workload, kind="Job")
    assert not answer(made, VALIDATE_WORKLOAD).is_allowed
    assert answer(creation(workload, kind="Job", groups=["vision"]), VALIDATE_WORKLOAD).is_allowed
    assert answer(change(workload, workload, kind="Job"), VALIDATE_WORKLOAD).is_allowed


def test_a_group_waits_for_its_queue_but_asks_no_foreign_one():
    late = creation({"metadata": {}, "spec": {"queue": "later"}}, kind="PodGroup")
    told = answer(late, VALIDATE_GROUP)
    assert told.is_allowed
    assert "waits until the queue is made" in told.warnings[0]
    foreign = {"metadata": {}, "spec": {"queue": "of-b"}}
    assert not answer(creation(foreign, kind="PodGroup"), VALIDATE_GROUP).is_allowed
    assert not answer(creation(foreign, kind="PodGroup", user=OURS), VALIDATE_GROUP).is_allowed


GPU = {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("made", "is_let_in"),
    [
        (pod(limits=GPU, scheduler="default-scheduler"), False),
        (pod(limits={"nvidia.com/mig-1g.5gb": "1"}, scheduler=""), False),
        (pod(annotations={"gpu-fraction": "0.5"}, scheduler="other"), False),
        (pod(scheduler="default-scheduler"), True),
        (pod(limits=GPU), True),
    ],
)
def test_other_schedulers_give_no_gpus_in_a_managed_namespace(made, is_let_in):
    told = answer(creation(made), VALIDATE_OTHERS)
    assert told.is_allowed is is_let_in
    assert is_let_in or "Set spec.schedulerName to kai-scheduler" in told.refusals[0]


def test_pods_of_other_schedulers_are_not_judged_by_our_rules():
    assert answer(creation(asking("nowhere", scheduler="default-scheduler"))).is_allowed
