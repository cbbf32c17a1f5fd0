"""What a container with a share sees, what a reservation looks like, and which device is meant."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_service.agent.nvml import Devices, GpuState, Trouble
from scheduler_service.backends.kubernetes.binder.options import BinderOptions, with_config
from scheduler_service.backends.kubernetes.binder.pods import reservation_of
from scheduler_service.backends.kubernetes.binder.registry import is_named_by_registry, node_of
from scheduler_service.backends.kubernetes.binder.reservation_pod import (
    reservation_name,
    reservation_pod,
    told_by_kubelet,
)
from scheduler_service.backends.kubernetes.binder.reserve import own_gpu
from scheduler_service.backends.kubernetes.binder.sharing_files import (
    Share,
    file_names,
    sharing_files,
)
from scheduler_service.backends.kubernetes.objects import Toleration, decode_pod
from scheduler_service.errors import BackendError


def pod(**annotations):
    body = {
        "metadata": {
            "name": "nb",
            "namespace": "ns",
            "uid": "pod-1",
            "annotations": {"runai/shared-gpu-configmap": "nb-abc1234-shared-gpu", **annotations},
        },
        "spec": {
            "initContainers": [{"name": "warm"}],
            "containers": [{"name": "side"}, {"name": "main"}],
        },
    }
    return decode_pod(msgspec.json.encode(body))


# -- what the container sees -----------------------------------------------------------------------


def test_both_config_maps_say_the_same_and_belong_to_the_pod():
    first, second = sharing_files(pod(), Share(("GPU-1",), "0.50"))
    assert first["metadata"]["name"] == "nb-abc1234-shared-gpu-0"
    assert second["metadata"]["name"] == "nb-abc1234-shared-gpu-0-evar"
    assert second["data"] == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "GPU_PORTION": "0.50",
        "RUNAI_NUM_OF_GPUS": "0.50",
    }
    assert first["data"] == {**second["data"], "RUNAI-VISIBLE-DEVICES": "GPU-1"}
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in (first, second)} == {"pod-1"}


def test_several_devices_in_the_form_of_cdi_and_a_memory_limit():
    share = Share(("GPU-1", "GPU-2"), "0.50", memory_mib=20480, use_cdi=True)
    assert share.variables() == {
        "NVIDIA_VISIBLE_DEVICES": (
            "k8s.device-plugin.nvidia.com/gpu=GPU-1,k8s.device-plugin.nvidia.com/gpu=GPU-2"
        ),
        "GPU_PORTION": "0.50",
        "RUNAI_NUM_OF_GPUS": "0.50",
        "CUDA_DEVICE_MEMORY_LIMIT": "20480m",
    }


@pytest.mark.parametrize(
    ("container", "place"), [("", "0"), ("side", "0"), ("main", "1"), ("warm", "i0")]
)
def test_the_container_with_the_share_is_named_as_kai_counts(container, place):
    chosen = {"gpu-fraction-container-name": container} if container else {}
    prefix = f"nb-abc1234-shared-gpu-{place}"
    assert file_names(pod(**chosen)) == (prefix, f"{prefix}-evar")


def test_a_pod_without_a_place_for_its_gpu_gets_no_files():
    assert file_names(pod(**{"gpu-fraction-container-name": "unknown"})) is None
    assert sharing_files(pod(**{"runai/shared-gpu-configmap": ""}), Share((), "0.50")) == []


# -- reservations ----------------------------------------------------------------------------------


def test_a_reservation_survives_taints_pressure_and_autoscalers():
    """F6: KAI's had neither tolerations nor a priority."""
    user = ("pod-1", "ns/nb")
    found = reservation_pod(
        BinderOptions(reservation_image="example.local/kai:1"),
        "node-1",
        "g",
        user,
        (Toleration("team", "Equal", "a", "NoSchedule"),),
    )
    spec, meta = found["spec"], found["metadata"]
    assert meta["name"] == reservation_name("node-1", "g")
    assert meta["labels"] == {"app": "kai-resource-reservation", "runai-gpu-group": "g"}
    assert meta["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert spec["nodeName"] == "node-1"
    assert spec["tolerations"] == [
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    assert spec["priorityClassName"] == "system-node-critical"
    container = spec["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert container["securityContext"]["runAsNonRoot"] is True
    assert reservation_of(msgspec.json.encode(found)).users == (user,)


def test_the_name_of_a_reservation_follows_from_node_and_group():
    """sha256("node-1/g") begins with these eight bytes; KAI's newer binder computes the same."""
    assert reservation_name("node-1", "g") == "gpu-reservation-bafbdd401dbddcc2"
    assert reservation_name("node-1", "h") != reservation_name("node-2", "g")


def test_a_template_is_laid_over_the_reservation():
    options = BinderOptions(
        reservation_template={
            "hostNetwork": True,
            "containers": [{"volumeMounts": [{"name": "x", "mountPath": "/x"}]}],
        }
    )
    spec = reservation_pod(options, "n", "g", ("u", "ns/p"))["spec"]
    assert spec["hostNetwork"] is True
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "x"
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "Pending"),
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, "Failed: OutOfnvidia.com/gpu"),
        ({"containerStatuses": [{"state": {"running": {}}}], "phase": "Running"}, "Running"),
        (
            {
                "containerStatuses": [
                    {
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"message": "it sees 2 GPUs"}},
                    }
                ]
            },
            "CrashLoopBackOff: it sees 2 GPUs",
        ),
    ],
)
def test_why_a_reservation_does_not_tell_its_device_is_read_from_the_kubelet(status, words):
    assert told_by_kubelet(msgspec.json.encode({"status": status})) == words


def test_any_other_pod_of_the_namespace_is_no_reservation():
    body = {"metadata": {"name": "x", "namespace": "kai-resource-reservation"}}
    assert reservation_of(msgspec.json.encode(body)) is None


# -- which device am I -----------------------------------------------------------------------------


def gpu(uuid):
    return GpuState(
        uuid=uuid,
        index=0,
        name="A10",
        memory_mib=1,
        used_mib=0,
        utilisation_percent=0,
        is_mig=False,
        processes=(),
    )


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("GPU-1", "GPU-1"),
        ("k8s.device-plugin.nvidia.com/gpu=GPU-1", "GPU-1"),
        ("0", "GPU-9"),
        ("/var/run/nvidia-container-devices", "GPU-9"),
        ("GPU-1,GPU-2", "GPU-9"),
        ("void", "GPU-9"),
    ],
)
def test_the_plug_ins_word_or_else_nvmls(told, expected):
    assert own_gpu({"NVIDIA_VISIBLE_DEVICES": told}, Devices("550", (gpu("GPU-9"),))) == expected


def test_a_reservation_that_sees_two_devices_or_none_says_so():
    with pytest.raises(BackendError, match="sees 2"):
        own_gpu({}, Devices("550", (gpu("GPU-1"), gpu("GPU-2"))))
    with pytest.raises(BackendError, match="does not know which GPU"):
        own_gpu({"NVIDIA_VISIBLE_DEVICES": "all"}, Trouble("no_driver", "there is none."))


# -- the registry ----------------------------------------------------------------------------------


def node(plugin_gpus="0", text='{"devices":[{"uuid":"GPU-1"},{"uuid":"GPU-2","mig":true}]}'):
    body = {
        "metadata": {"name": "n", "annotations": {"kai.scheduler/gpu-devices": text}},
        "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": plugin_gpus}},
    }
    return node_of(msgspec.json.encode(body))


REGISTRY = BinderOptions(sharing="registry")


def test_the_registry_names_a_whole_device_where_no_plug_in_runs():
    assert is_named_by_registry(REGISTRY, node(), "GPU-1")


@pytest.mark.parametrize(
    ("options", "where", "group"),
    [
        (BinderOptions(), node(), "GPU-1"),
        (REGISTRY, node(plugin_gpus="8"), "GPU-1"),
        (REGISTRY, node(), "GPU-2"),
        (REGISTRY, node(), "unknown"),
        (REGISTRY, node(text="not json"), "GPU-1"),
        (REGISTRY, None, "GPU-1"),
    ],
)
def test_everywhere_else_a_reservation_is_needed(options, where, group):
    assert not is_named_by_registry(options, where, group)


# -- options ---------------------------------------------------------------------------------------


def test_the_fields_of_kais_config_are_heeded():
    spec = {
        "binder": {
            "cdiEnabled": True,
            "volumeBindingTimeoutSeconds": 30,
            "plugins": {
                "volumebinding": {"arguments": {"bindTimeoutSeconds": "45"}},
                "hamicore": {"enabled": True},
            },
            "resourceReservation": {
                "allocationTimeout": 7,
                "runtimeClassName": "nvidia",
                "podResources": {"requests": {"cpu": "5m"}},
            },
        }
    }
    found = with_config(BinderOptions(), spec)
    assert (found.use_cdi, found.limit_memory) == (True, True)
    assert (found.volume_timeout_s, found.reservation_timeout_s) == (45.0, 7.0)
    assert found.reservation_runtime_class == "nvidia"
    assert found.reservation_resources == {"requests": {"cpu": "5m"}}


@pytest.mark.parametrize("spec", [{}, {"binder": None}, {"binder": {"cdiEnabled": None}}])
def test_what_the_config_does_not_say_stays(spec):
    assert with_config(BinderOptions(), spec) == BinderOptions()
