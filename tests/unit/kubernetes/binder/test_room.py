"""Whether a pod still fits a node when its bind is made."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.backends.kubernetes.binder.failures import BindFailed
from scheduler_service.backends.kubernetes.binder.pods import Amounts, PodView, pod_of
from scheduler_service.backends.kubernetes.binder.records import Request
from scheduler_service.backends.kubernetes.binder.registry import NodeView
from scheduler_service.backends.kubernetes.binder.room import Room

NODE = NodeView("n", {}, has=Amounts(4000, 1000, 8, 3))


def pod(key="ns/a", gpus=1, node="", cpu=100, **more):
    return PodView(key=key, uid=key, node=node, asks=Amounts(cpu, 10, gpus, 1), **more)


def request(key="ns/a"):
    return Request(key=key, uid="r", pod=key, node="n")


def test_a_foreign_pod_that_took_the_gpus_is_seen():
    room = Room()
    room.saw(None, pod("kube/foreign", gpus=8, node="n"))
    with pytest.raises(BindFailed, match="It has 8 GPUs, 8 are taken meanwhile, and 1 more"):
        room.begin(request(), pod(), NODE)


def test_binds_in_progress_count():
    room = Room()
    room.begin(request("ns/a"), pod("ns/a", gpus=5), NODE)
    with pytest.raises(BindFailed):
        room.begin(request("ns/b"), pod("ns/b", gpus=5), NODE)
    room.give_up("ns/a")
    room.begin(request("ns/b"), pod("ns/b", gpus=5), NODE)


def test_a_pod_that_arrived_counts_once():
    room = Room()
    waiting = pod()
    room.begin(request(), waiting, NODE)
    room.saw(waiting, pod(node="n"))
    assert room.taken("n") == Amounts(100, 10, 1, 1)


def test_a_second_try_counts_once():
    room = Room()
    room.begin(request(), pod(), NODE)
    room.begin(request(), pod(), NODE)
    assert room.taken("n").gpus == 1


def test_what_ended_or_is_gone_makes_room():
    room = Room()
    running = pod(node="n")
    room.saw(None, running)
    ended = pod(node="n", is_ended=True)
    room.saw(running, ended)
    room.saw(ended, None)
    assert room.taken("n") == Amounts()


def test_the_number_of_pods_is_limited_too():
    room = Room()
    for number in range(3):
        room.saw(None, pod(f"ns/{number}", gpus=0, cpu=0, node="n"))
    with pytest.raises(BindFailed, match="3 pods"):
        room.begin(request(), pod(gpus=0, cpu=0), NODE)


def test_what_a_pod_asks_is_read_with_init_containers_and_overhead():
    body = {
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {
            "overhead": {"cpu": "100m"},
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}],
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
                }
            ],
        },
    }
    assert pod_of(msgspec.json.encode(body)).asks == Amounts(2100, 0, 2, 1)
