"""Halves of a GPU on the real node: the reservation's own program reads its device from the real device plug-in."""

from __future__ import annotations

import pytest

from tests.cluster.binding import RESERVATIONS, Bench, config
from tests.cluster.testbed import images

SLOW_S = 600
SAY = "echo seen $NVIDIA_VISIBLE_DEVICES $GPU_PORTION $RUNAI_NUM_OF_GPUS; sleep 3600"


class RealBench(Bench):
    """A bench whose pods are real processes, made as admission leaves them."""

    def __init__(self, cluster, namespace, node):
        super().__init__(cluster, namespace)
        self.node = node

    def half(self, name, *groups):
        prefix = f"{name}-abc1234-shared-gpu"
        annotations = {"gpu-fraction": "0.50", "runai/shared-gpu-configmap": prefix}
        body = self.node.pod(name, self.namespace, ["dash", "-c", SAY], annotations=annotations)
        container = body["spec"]["containers"][0]
        container["env"] = [
            {
                "name": "NVIDIA_VISIBLE_DEVICES",
                "valueFrom": {
                    "configMapKeyRef": {"name": f"{prefix}-0", "key": "NVIDIA_VISIBLE_DEVICES"}
                },
            }
        ]
        container["envFrom"] = [{"configMapRef": {"name": f"{prefix}-0-evar"}}]
        pod = self.admin.create(body)
        self.give(pod, self.node.name, *groups)
        return pod

    def seen(self, name):
        """Return what the container said it sees."""
        self.admin.wait_for_one(
            f"{self.pods}/{name}",
            lambda one: one["status"].get("phase") == "Running",
            f"{name} runs",
            fail_safe_s=SLOW_S,
        )
        lines = self.admin.text(f"{self.pods}/{name}/log").splitlines()
        return next(line.split()[1:] for line in lines if line.startswith("seen"))


@pytest.fixture
def bench(kai_cluster, real_node, namespace):
    """Give the bench; a small machine that does much else may take minutes to start a program."""
    kai_cluster.apply(config(allocationTimeout=SLOW_S))
    return RealBench(kai_cluster, namespace, real_node)


def test_two_halves_see_one_device_and_it_comes_back_when_they_end(bench):
    """The same device for both, another for the third; afterwards four whole GPUs can be had again."""
    with bench.binder("--reservation-image", images.PYTHON):
        for name, group in (("one", "g1"), ("two", "g1"), ("three", "g2")):
            bench.half(name, group)
        one, two, three = (bench.seen(name) for name in ("one", "two", "three"))
        assert one == two
        assert one[1:] == ["0.50", "0.50"]
        assert one[0].startswith("GPU-real-")
        assert three[0] != one[0]
        assert bench.reservations() == {"g1": one[0], "g2": three[0]}
        for name in ("one", "two", "three"):
            bench.admin.delete(f"{bench.pods}/{name}")
        bench.admin.wait_for(
            RESERVATIONS, lambda all_: not all_, "both devices are let go", fail_safe_s=SLOW_S
        )
        whole = bench.admin.create(
            bench.node.pod("whole", bench.namespace, ["sleep", "3600"], gpus=4)
        )
        bench.request(whole, bench.node.name)
        bench.admin.wait_for_one(
            f"{bench.pods}/whole",
            lambda one: one["status"].get("phase") == "Running",
            "all four devices are had by one pod",
            fail_safe_s=SLOW_S,
        )
