"""What every backend promises the loop, kept by the cluster on a real API server: the suite of tests/contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.kube_world import KubernetesWorld
from tests.cluster.testbed.cluster import Cluster
from tests.contracts import test_backend as suite


@pytest.fixture
def world(kai_cluster: Cluster, namespace: str) -> Iterator[KubernetesWorld]:
    kai_cluster.nodes.add(KubernetesWorld.node, gpus=2, gpu_memory_mib=24_576)
    made = KubernetesWorld(kai_cluster, namespace)
    yield made
    made.close()


PROMISES = {name: check for name, check in vars(suite).items() if name.startswith("test_")}
globals().update(PROMISES)


def test_the_suite_is_the_whole_suite() -> None:
    assert len(PROMISES) >= 9
