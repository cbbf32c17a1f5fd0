"""What a new pod gets: references to ConfigMaps that the binder writes later."""

import copy

import pytest

from scheduler_service.backends.kubernetes.admission.facts import Facts
from scheduler_service.backends.kubernetes.admission.mutate import (
    config_map_prefix,
    pod_patch,
    volume_name,
)
from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.rules import MUTATE_POD, judge, wants
from tests.unit.kubernetes.admission.requests import OPTIONS, creation, pod

SHARE = {"gpu-fraction": "0.5"}


def patched(of, options=OPTIONS, *, token="abc1234", has_runtime_class=False):  # noqa: S107
    new = copy.deepcopy(of)
    for change in pod_patch(of, options, token=token, has_runtime_class=has_runtime_class):
        assert change["op"] == "add"
        *path, last = change["path"].strip("/").split("/")
        here = new
        for part in path:
            here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
        here[last] = change["value"]
    return new


def keys_of(env):
    return [
        (entry["name"], entry["valueFrom"]["configMapKeyRef"]["name"])
        for entry in env
        if "valueFrom" in entry
    ]


def test_a_pod_without_a_share_stays_as_it_is():
    assert (
        pod_patch(pod(limits={"nvidia.com/gpu": "1"}), OPTIONS, token="t", has_runtime_class=True)
        == ()
    )


def test_the_first_container_refers_to_its_config_maps():
    new = patched(pod(annotations=SHARE))
    container = new["spec"]["containers"][0]
    assert new["metadata"]["annotations"] == {
        "gpu-fraction": "0.5",
        "runai/shared-gpu-configmap": "work-abc1234-shared-gpu",
    }
    name = "work-abc1234-shared-gpu-0"
    assert keys_of(container["env"]) == [
        ("NVIDIA_VISIBLE_DEVICES", name),
        ("RUNAI_NUM_OF_GPUS", name),
        ("GPU_PORTION", name),
    ]
    assert container["envFrom"] == [{"configMapRef": {"name": f"{name}-evar"}}]
    assert new["spec"]["volumes"] == [{"name": f"{name}-vol", "configMap": {"name": name}}]


def test_the_named_container_gets_it_also_among_init_containers():
    shared = pod(annotations=SHARE | {"gpu-fraction-container-name": "prepare"})
    shared["spec"]["initContainers"] = [{"name": "first"}, {"name": "prepare"}]
    new = patched(shared)
    assert keys_of(new["spec"]["initContainers"][1]["env"])[0][1].endswith("-shared-gpu-i1")
    assert "env" not in new["spec"]["containers"][0]


def test_what_the_author_set_stays_but_the_device():
    shared = pod(annotations=SHARE)
    shared["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "LEVEL", "value": "1"},
    ]
    shared["spec"]["volumes"] = [{"name": "work", "emptyDir": {}}]
    new = patched(shared)
    env = new["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env].count("NVIDIA_VISIBLE_DEVICES") == 1
    assert env[-1] == {"name": "LEVEL", "value": "1"}
    assert new["spec"]["volumes"][0] == {"name": "work", "emptyDir": {}}


def test_a_copy_of_a_pod_gets_config_maps_of_its_own():
    first = patched(pod(annotations=SHARE), token="aaaaaaa")
    second = patched(first, token="bbbbbbb")
    assert "aaaaaaa" not in str(second)
    assert len(second["spec"]["volumes"]) == 1
    assert len(second["spec"]["containers"][0]["envFrom"]) == 1


@pytest.mark.parametrize(
    ("meta", "prefix"),
    [
        ({"name": "work"}, "work-t-shared-gpu"),
        ({"generateName": "work-"}, "work-t-shared-gpu"),
        ({"name": "a" * 80}, "a" * 37 + "-t-shared-gpu"),
        ({"name": "a" * 36 + ".b"}, "a" * 36 + "-t-shared-gpu"),
        ({"name": "p", "ownerReferences": [{"name": "train"}]}, "train-t-shared-gpu"),
        ({}, "pod-t-shared-gpu"),
    ],
)
def test_the_prefix_stems_from_owner_or_pod_and_fits(meta, prefix):
    found = config_map_prefix({"metadata": meta}, "t")
    assert found == prefix
    assert len(volume_name(f"{found}-i10-evar")) <= 63


def test_a_volume_has_only_letters_that_volumes_may_have():
    assert volume_name("my.Pod_x-shared-gpu-0") == "my-pod-x-shared-gpu-0-vol"


def test_the_runtime_class_is_set_for_shares_where_the_cluster_has_it():
    shared = pod(annotations=SHARE)
    assert patched(shared, has_runtime_class=True)["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in patched(shared)["spec"]
    shared["spec"]["runtimeClassName"] = "mine"
    assert patched(shared, has_runtime_class=True)["spec"]["runtimeClassName"] == "mine"


def test_a_memory_limit_is_referred_to_only_where_it_is_enforced():
    new = patched(pod(annotations=SHARE), Options(memory_limit_in_container=True))
    (limit,) = [
        e for e in new["spec"]["containers"][0]["env"] if e["name"] == "CUDA_DEVICE_MEMORY_LIMIT"
    ]
    assert limit["valueFrom"]["configMapKeyRef"]["optional"] is True


def test_containers_without_a_gpu_see_none_where_that_is_wished():
    mixed = pod(annotations=SHARE)
    mixed["spec"]["containers"] += [
        {
            "name": "side",
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {}}}],
        },
        {"name": "claims", "resources": {"claims": [{"name": "gpu"}]}},
    ]
    new = patched(mixed, Options(block_visible_devices=True))["spec"]["containers"]
    assert new[1]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert "env" not in new[2]
    assert new[0]["env"][0]["valueFrom"]


def test_pods_of_other_schedulers_are_not_touched():
    other = creation(pod(annotations=SHARE, scheduler="default-scheduler"))
    assert judge(MUTATE_POD, other, Facts(), OPTIONS, token="t").patch == ()


def test_the_runtime_class_is_looked_up_only_for_shares():
    assert wants(MUTATE_POD, creation(pod(annotations=SHARE)), OPTIONS).runtime_class == "nvidia"
    assert wants(MUTATE_POD, creation(pod()), OPTIONS).runtime_class == ""
