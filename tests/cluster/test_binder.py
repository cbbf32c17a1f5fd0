"""`kai binder` on a real API server: requests carried out, refused, tried again, withdrawn; nothing lost by a kill."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.binding import Bench


@pytest.fixture
def bench(kai_cluster, namespace):
    return Bench(kai_cluster, namespace)


def test_a_request_is_carried_out_and_said(bench):
    bench.cluster.nodes.add("n", gpus=2)
    pod = bench.pod("p", gpus=1)
    with bench.binder():
        bench.request(pod, "n")
        found = bench.bound("p")
        bench.running("p")
    assert found["spec"]["nodeName"] == "n"
    assert found["metadata"]["annotations"]["received-resource-type"] == "Regular"
    assert (bench.condition("p")["status"], bench.condition("p")["reason"]) == ("True", "Bound")
    assert bench.events("p") == ["Bound"]


def test_what_was_asked_before_the_binder_ran_is_carried_out_too(bench):
    bench.cluster.nodes.add("n")
    bench.request(bench.pod("p"), "n")
    with bench.binder():
        bench.bound("p")


def test_another_pod_of_the_same_name_is_not_bound_by_an_old_decision(bench):
    """A StatefulSet's pod comes again under its name while the old decision is still there."""
    bench.cluster.nodes.add("n")
    old = bench.pod("p")
    bench.admin.delete(f"{bench.pods}/p", grace_s=0)
    bench.admin.wait_until_gone(f"{bench.pods}/p")
    new = bench.pod("p")
    bench.request(old, "n", podUID=old["metadata"]["uid"])
    with bench.binder():
        bench.admin.wait_until_gone(f"{bench.requests}/p")
        assert not bench.admin.get(f"{bench.pods}/p")["spec"].get("nodeName")
        bench.request(new, "n")
        assert bench.bound("p")["metadata"]["uid"] == new["metadata"]["uid"]


def test_a_node_that_is_gone_is_a_failure_with_its_sentence_and_no_false_bound(bench):
    """F1: KAI said Bound here after its second try."""
    pod = bench.pod("p")
    with bench.binder():
        bench.request(pod, "nowhere", backoffLimit=2)
        status = bench.failed("p", attempts=2)
    assert (status["phase"], status["failedAttempts"]) == ("Failed", 2)
    assert status["reason"] == "Node nowhere is gone."
    condition = bench.condition("p")
    assert (condition["status"], condition["reason"]) == ("False", "BindingError")
    assert condition["message"] == status["reason"]
    assert set(bench.events("p")) == {"BindingError"}
    assert not bench.admin.get(f"{bench.pods}/p")["spec"].get("nodeName")


def test_a_failed_try_is_made_again_and_may_succeed(bench):
    pod = bench.pod("p")
    with bench.binder():
        bench.request(pod, "later", backoffLimit=8)
        bench.failed("p")
        bench.cluster.nodes.add("later")
        bench.bound("p")
    status = bench.admin.get(f"{bench.requests}/p")["status"]
    assert status["failedAttempts"] >= 1
    assert status["reason"] == ""
    assert bench.condition("p")["status"] == "True"


def test_a_foreign_pod_that_came_between_decision_and_bind_is_seen(bench):
    bench.cluster.nodes.add("n", gpus=2)
    bench.pod("foreign", gpus=2, nodeName="n")
    bench.running("foreign")
    pod = bench.pod("p", gpus=1)
    with bench.binder():
        bench.request(pod, "n")
        status = bench.failed("p")
    assert "It has 2 GPUs, 2 are taken meanwhile, and 1 more were needed." in status["reason"]
    assert not bench.admin.get(f"{bench.pods}/p")["spec"].get("nodeName")


def test_a_pod_that_somebody_else_bound_is_a_success_only_where_it_was_sent(bench):
    bench.cluster.nodes.add("n", count=2)
    for name, node in (("here", "n-0"), ("there", "n-1")):
        bench.request(bench.pod(name), "n-0")
        bench.admin.post(
            f"{bench.pods}/{name}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
        )
    with bench.binder():
        bench.bound("here")
        status = bench.failed("there")
    assert status["reason"] == "The pod already runs on node n-1, not on n-0."


def test_a_kill_at_any_point_of_a_thousand_binds_loses_nothing(bench):
    """kill -9 again and again: each pod ends up on its node, once, and every request is settled."""
    nodes = bench.cluster.nodes.add("n", count=10, gpus=0, pods=500)
    count = 1000
    pods = bench.admin.in_parallel(lambda number: bench.pod(f"p-{number}"), range(count))
    binder = bench.start()
    done = 0
    try:
        for number in range(0, count, 100):
            bench.admin.in_parallel(
                lambda pod: bench.request(pod, nodes[int(pod["metadata"]["name"][2:]) % 10]),
                pods[number : number + 100],
            )
            goal = number + 50

            def far_enough(all_, goal=goal):
                return sum("status" in one for one in all_.values()) >= goal

            bench.admin.wait_for(bench.requests, far_enough, f"{goal} are carried out")
            binder.kill()
            binder.start()
            done += 1
        bench.admin.wait_for(
            bench.requests,
            lambda all_: (
                Counter(one.get("status", {}).get("phase") for one in all_.values())
                == {"Succeeded": count}
            ),
            "every request is carried out",
        )
    finally:
        binder.kill()
    found = bench.admin.list(bench.pods)
    wrong = [
        one["metadata"]["name"]
        for one in found
        if one["spec"].get("nodeName") != nodes[int(one["metadata"]["name"][2:]) % 10]
    ]
    assert (done, len(found), wrong) == (10, count, [])
    said = Counter(
        next(c["status"] for c in one["status"]["conditions"] if c["type"] == "PodBound")
        for one in found
    )
    assert said == {"True": count}


def test_an_api_server_that_is_started_anew_costs_no_try(bench):
    bench.cluster.nodes.add("n", pods=500)
    pods = bench.admin.in_parallel(lambda number: bench.pod(f"p-{number}"), range(60))
    with bench.binder():
        for pod in pods[:30]:
            bench.request(pod, "n")
        bench.bound("p-0")  # it is at work: one that is only starting ends with a sentence
        bench.cluster.restart_api()
        for pod in pods[30:]:
            bench.request(pod, "n")
        found = bench.admin.wait_for(
            bench.requests,
            lambda all_: all(
                one.get("status", {}).get("phase") == "Succeeded" for one in all_.values()
            ),
            "every request is carried out",
        )
    assert len(found) == 60
    assert {one["status"]["failedAttempts"] for one in found.values()} == {0}


def test_the_binder_ends_when_it_is_told(bench):
    binder = bench.start()
    bench.cluster.nodes.add("n")
    bench.request(bench.pod("p"), "n")
    bench.bound("p")
    binder.stop()
    assert binder.exit_code == 0
