"""What a pod asks, row by row: sums, init containers, sidecars, overhead, shares, MIG."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_service.backends.kubernetes.decode.quantities import milli, moment_ms, whole
from scheduler_service.backends.kubernetes.decode.requests import BadShare, request_of
from scheduler_service.backends.kubernetes.objects import decode_pod
from scheduler_service.model.gpu import FractionOfGpu, GpuMemory, Mig, WholeGpus
from scheduler_service.model.pod import PodRequest
from tests.unit.kubernetes.objects import pod, raw


@pytest.mark.parametrize(
    ("text", "thousandths", "units"),
    [
        ("2", 2000, 2),
        (2, 2000, 2),
        ("250m", 250, 1),
        ("1.5", 1500, 2),
        ("100n", 1, 1),
        ("1Ki", 1_024_000, 1024),
        ("64Gi", 64 * 2**30 * 1000, 64 * 2**30),
        ("1e3", 1_000_000, 1000),
        ("12E", 12 * 10**21, 12 * 10**18),
        ("0", 0, 0),
    ],
)
def test_quantities(text: str | int, thousandths: int, units: int) -> None:
    assert (milli(text), whole(text)) == (thousandths, units)


@pytest.mark.parametrize("text", ["", "x", "1 Gb", "NaN", "Inf", "--1", "1Mx"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        whole(text)


def test_moments() -> None:
    assert moment_ms("1970-01-01T00:00:02Z") == 2000
    assert moment_ms("1970-01-01T01:00:02.250000+01:00") == 2250


def container(name: str = "c", **requests: Any) -> dict[str, Any]:
    asked = {key.replace("gpu", "nvidia.com/gpu"): value for key, value in requests.items()}
    return {"name": name, "resources": {"requests": asked}}


def asked(**spec: Any) -> PodRequest:
    annotations = spec.pop("annotations", {})
    return request_of(decode_pod(raw(pod(annotations=annotations, **spec))))


def test_containers_add_up() -> None:
    request = asked(
        containers=[container(cpu="1", memory="1Gi"), container("d", cpu="500m", gpu=2)]
    )
    assert request == PodRequest(1500, 2**30, WholeGpus(2))


def test_the_largest_init_container_counts_not_their_sum() -> None:
    request = asked(
        containers=[container(cpu="1")],
        initContainers=[container("i", cpu="3"), container("j", cpu="2", gpu=1)],
    )
    assert request == PodRequest(3000, 0, WholeGpus(1))


def test_a_sidecar_is_added_and_counts_for_init_containers_after_it() -> None:
    """Main 2, sidecar 1, an ordinary init container of 2 after it: three either way (KAI's example)."""
    sidecar = {**container("s", cpu="1"), "restartPolicy": "Always"}
    both = asked(containers=[container(cpu="2")], initContainers=[sidecar, container("i", cpu="2")])
    assert both.milli_cpu == 3000
    after = asked(
        containers=[container(cpu="1")], initContainers=[sidecar, container("i", cpu="3")]
    )
    assert after.milli_cpu == 4000
    before = asked(
        containers=[container(cpu="1")], initContainers=[container("i", cpu="3"), sidecar]
    )
    assert before.milli_cpu == 3000


@pytest.mark.parametrize(("sidecar_first", "whole"), [(True, 5500), (False, 4500)])
def test_l004_where_a_sidecar_stands_decides_what_the_pod_asks_for(
    sidecar_first: bool, whole: int
) -> None:
    """Field report L004: main 2, sidecar 1, an init container of 4, overhead 0.5."""
    sidecar = {**container("s", cpu="1"), "restartPolicy": "Always"}
    init = container("i", cpu="4")
    order = [sidecar, init] if sidecar_first else [init, sidecar]
    request = asked(containers=[container(cpu="2")], initContainers=order, overhead={"cpu": "500m"})
    assert request.milli_cpu + request.overhead_milli_cpu == whole


def test_limits_stand_for_missing_requests() -> None:
    resources = {"limits": {"nvidia.com/gpu": 1, "cpu": "2"}, "requests": {"cpu": "1"}}
    request = asked(containers=[{"name": "c", "resources": resources}])
    assert request == PodRequest(1000, 0, WholeGpus(1))


def test_overhead_is_kept_apart() -> None:
    request = asked(containers=[container(cpu="1")], overhead={"cpu": "2", "memory": "10Mi"})
    assert request == PodRequest(1000, overhead_milli_cpu=2000, overhead_memory_bytes=10 * 2**20)


def test_other_resources_by_name() -> None:
    request = asked(requests={"example.com/fpga": "2", "ephemeral-storage": "1Gi", "pods": "1"})
    assert dict(request.extended) == {"example.com/fpga": 2, "ephemeral-storage": 2**30}


def test_mig_wins() -> None:
    request = asked(
        requests={"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1},
        annotations={"gpu-fraction": "0.5"},
    )
    assert request.gpu == Mig((("1g.5gb", 2), ("3g.20gb", 1)))


@pytest.mark.parametrize(
    ("annotations", "gpu"),
    [
        ({"gpu-fraction": "0.5"}, FractionOfGpu(500)),
        ({"gpu-fraction": "1"}, FractionOfGpu(1000)),
        ({"gpu-fraction": "0.0001"}, FractionOfGpu(1)),
        ({"gpu-fraction": " 0.25 ", "gpu-fraction-num-devices": "2"}, FractionOfGpu(250, 2)),
        ({"gpu-memory": "2000"}, GpuMemory(2000)),
        ({"gpu-memory": "2000", "gpu-fraction-num-devices": "3"}, GpuMemory(2000, 3)),
        ({"gpu-memory": "2000", "gpu-fraction": "0.5"}, FractionOfGpu(500)),
        ({}, None),
    ],
)
def test_shares(annotations: dict[str, str], gpu: object) -> None:
    assert asked(annotations=annotations).gpu == gpu


@pytest.mark.parametrize(
    "annotations",
    [{"gpu-fraction": text} for text in ("NaN", "inf", "0", "-0.5", "1.5", "half", "", "0x1p-1")]
    + [{"gpu-memory": text} for text in ("0", "-1", "1Gi", "2.5", "", "9" * 30)]
    + [{"gpu-fraction": "0.5", "gpu-fraction-num-devices": text} for text in ("0", "x", "1.0")],
)
def test_senseless_shares_are_told_and_never_read_as_no_gpu(annotations: dict[str, str]) -> None:
    with pytest.raises(BadShare, match="annotation gpu-"):
        asked(annotations=annotations)


def test_equal_requests_are_one_object() -> None:
    assert asked(requests={"cpu": "1"}) is asked(requests={"cpu": "1000m"})
