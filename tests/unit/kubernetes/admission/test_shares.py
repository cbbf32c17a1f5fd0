"""V1 to V9 and what KAI lets slip: how a share of a GPU may be asked for."""

import pytest

from scheduler_service.backends.kubernetes.admission.options import Options
from scheduler_service.backends.kubernetes.admission.shares import share_refusals
from tests.unit.kubernetes.admission.requests import OPTIONS, pod


def refusals(annotations, limits=None, options=OPTIONS):
    return list(share_refusals(pod(annotations=annotations, limits=limits), options))


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"gpu-fraction": "0.5"},
        {"gpu-fraction": ".5"},
        {"gpu-fraction": "5e-1"},
        {"gpu-fraction": "0.01", "gpu-fraction-num-devices": "2"},
        {"gpu-memory": "4096", "mps": "true"},
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": "main"},
        {"mps": "false"},
        {"gpu-fraction-container-name": "main"},
    ],
)
def test_a_share_that_can_be_given_is_let_in(annotations):
    assert refusals(annotations) == []


@pytest.mark.parametrize(
    ("annotations", "limits", "says"),
    [
        ({"mps": "true"}, None, "mps is for pods that share a GPU"),
        ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "1"}, "not for both"),
        ({"gpu-memory": "100"}, {"nvidia.com/gpu": 1}, "not for both"),
        ({"gpu-memory": "100", "gpu-fraction": "0.5"}, None, "not by both"),
        ({"gpu-fraction-num-devices": "2"}, None, "is for pods that share a GPU"),
        ({"gpu-memory": "0"}, None, "whole number of MiB"),
        ({"gpu-memory": "-5"}, None, "whole number of MiB"),
        ({"gpu-memory": "4Gi"}, None, "whole number of MiB"),
        ({"gpu-memory": ""}, None, "whole number of MiB"),
        ({"gpu-fraction": "0"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "1"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "1.5"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "-0.5"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "NaN"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "inf"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "0x1p-1"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "500m"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "half"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "\u0660.\u0665"}, None, "above 0 and below 1"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, None, "num-devices is '0'"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1.5"}, None, "num-devices is '1.5'"),
        ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}, None, "no such container"),
        ({"gpu-fraction": "0.5"}, {"nvidia.com/mig-1g.5gb": "1"}, "nvidia.com/mig-1g.5gb"),
        ({"gpu-memory": "9"}, {"amd.com/gpu": "1"}, "amd.com/gpu"),
    ],
)
def test_a_share_that_can_not_be_given_is_refused_with_a_sentence(annotations, limits, says):
    (sentence,) = refusals(annotations, limits)
    assert says in sentence
    assert sentence.endswith(".")


def test_a_limit_of_no_gpus_is_no_request_for_one():
    assert refusals({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "0"}) == []


def test_an_init_container_with_a_whole_gpu_counts_too():
    shared = pod(annotations={"gpu-fraction": "0.5"})
    shared["spec"]["initContainers"] = [
        {"name": "prepare", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ]
    assert "not for both" in " ".join(share_refusals(shared, OPTIONS))


@pytest.mark.parametrize("asked", [{"gpu-fraction": "0.5"}, {"gpu-memory": "100"}])
def test_nothing_is_shared_where_sharing_is_switched_off(asked):
    assert "switched off" in " ".join(refusals(asked, options=Options(gpu_sharing=False)))


def test_every_fault_is_told_at_once():
    told = refusals({"gpu-fraction": "2", "gpu-memory": "no"}, {"nvidia.com/gpu": "1"})
    assert len(told) == 4
