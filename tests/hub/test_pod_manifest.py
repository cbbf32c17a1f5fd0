"""What the pod of a server looks like: our scheduler, the queue, the share; and nothing that is left for the next."""

from __future__ import annotations

from typing import Any

import pytest

from kai_jupyter.hub.kube import LONGEST_QUEUE_S
from kai_jupyter.hub.refusing import NotStarted
from tests.hub.conftest import Spawners

QUEUE = "kai.scheduler/queue"


def pod_of(spawner: Any) -> Any:
    return spawner.run(spawner.get_pod_manifest())


def test_a_share_is_asked_of_our_scheduler_in_a_queue(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "0.5", "queue": "team-a"}))
    assert pod.spec.scheduler_name == "kai-scheduler"
    assert pod.spec.priority_class_name == "build"
    assert pod.metadata.labels[QUEUE] == "team-a"
    assert pod.metadata.annotations["gpu-fraction"] == "0.5"
    resources = pod.spec.containers[0].resources
    assert (resources.requests["cpu"], resources.limits["memory"]) == ("8", "32Gi")
    assert "nvidia.com/gpu" not in resources.limits


def test_whole_gpus_are_asked_for_as_everywhere_in_kubernetes(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "2"}))
    assert pod.spec.containers[0].resources.limits["nvidia.com/gpu"] == "2"
    assert "gpu-fraction" not in pod.metadata.annotations


def test_memory_is_asked_for_in_mib(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "memory", "gpu_memory": "8GiB"}))
    assert pod.metadata.annotations["gpu-memory"] == "8192"


def test_a_server_without_a_gpu_is_left_to_the_usual_scheduler(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "cpu"}))
    assert pod.spec.scheduler_name is None
    assert QUEUE not in pod.metadata.labels
    assert pod.spec.priority_class_name is None


def test_who_may_lose_it_has_a_lower_class(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "0.5", "priority": "yields"}))
    assert pod.spec.priority_class_name == "build-preemptible"


def test_an_environment_is_an_image_or_a_command(spawner_of: Spawners) -> None:
    assert pod_of(spawner_of({"profile": "torch"})).spec.containers[0].image.endswith("torch:1")
    own = pod_of(spawner_of({"profile": "own"})).spec.containers[0]
    assert own.args[0] == "start-own"
    assert own.image == "example.local/lab:1"


def test_nothing_of_one_choice_is_in_the_next_pod(spawner_of: Spawners) -> None:
    spawner = spawner_of({"share": "2", "queue": "team-a", "profile": "torch"})
    before = {name: spawner.trait_values()[name] for name in spawner.trait_names(config=True)}
    pod_of(spawner)
    spawner.user_options = {"share": "cpu"}
    pod = pod_of(spawner)
    assert pod.to_dict() == pod_of(spawner_of({"share": "cpu"})).to_dict()
    after = {name: spawner.trait_values()[name] for name in spawner.trait_names(config=True)}
    assert after == before


def test_no_credentials_of_the_cluster_are_in_the_pod(spawner_of: Spawners) -> None:
    pod = pod_of(spawner_of({"share": "0.5"}))
    assert pod.spec.automount_service_account_token is False
    variables = {one.name: one.value for one in pod.spec.containers[0].env}
    assert variables["KAI_IDENTITY"] == "hub"
    assert not any("KUBE" in name for name in variables)


def test_the_queue_is_no_start_time(spawner_of: Spawners) -> None:
    spawner = spawner_of()
    assert spawner.start_timeout == LONGEST_QUEUE_S
    assert spawner.kai_start_timeout == 900


@pytest.mark.parametrize("options", [{"share": "64"}, {"profile": "none"}, {"priority": "first"}])
def test_what_is_not_offered_makes_no_pod(spawner_of: Spawners, options: dict[str, str]) -> None:
    with pytest.raises(NotStarted) as told:
        pod_of(spawner_of(options))
    assert told.value.status_code == 400
    assert "opt-share=cpu" in told.value.jupyterhub_html_message


def test_a_refusal_is_escaped_and_offers_a_way_on(spawner_of: Spawners) -> None:
    refusal = spawner_of().kai_refusal("No <b>. Try & again.", reason="x")
    assert "<b>" not in refusal.jupyterhub_html_message
    assert "Try &amp; again." in refusal.jupyterhub_html_message
    assert "/hub/spawn/ana" in refusal.jupyterhub_html_message
    assert str(refusal) == "No <b>. Try & again."
