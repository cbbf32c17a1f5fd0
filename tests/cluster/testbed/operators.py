"""Other people's objects and operators, from their Go modules: CRDs as they ship them, KubeRay as
it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.testbed.admin import documents
from tests.cluster.testbed.binaries import module_folder, program
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.process import Process


@dataclass(frozen=True, slots=True)
class Source:
    """Where a project keeps its CRDs: go.mod below `go/`, module, folder, names of the files."""

    requirements: str
    module: str
    folder: str
    files: str


SOURCES = {
    "kubeflow": Source(
        "operators",
        "github.com/kubeflow/training-operator",
        "manifests/base/crds",
        "kubeflow.org_*.yaml",
    ),
    "jobset": Source(
        "operators",
        "sigs.k8s.io/jobset",
        "config/components/crd/bases",
        "jobset.x-k8s.io_*.yaml",
    ),
    "lws": Source(
        "operators",
        "sigs.k8s.io/lws",
        "config/crd/bases",
        "leaderworkerset.x-k8s.io_*.yaml",
    ),
    "ray": Source(
        "kuberay",
        "github.com/ray-project/kuberay/ray-operator",
        "config/crd/bases",
        "ray.io_*.yaml",
    ),
}
RAY_PORTS = ("127.0.0.1:18080", "127.0.0.1:18082")


def crd_files(name: str) -> list[Path]:
    """Return the CRD files of a project of `SOURCES`; raises Missing where Go has them not."""
    source = SOURCES[name]
    folder = module_folder(source.requirements, source.module) / source.folder
    return sorted(folder.glob(source.files))


def apply_crds(cluster: Cluster, *names: str) -> None:
    """Apply the CRDs of projects (of all when none is named); they are served afterwards."""
    files = [file for name in names or tuple(SOURCES) for file in crd_files(name)]
    cluster.apply([one for file in files for one in documents(file)])


def start_kuberay(cluster: Cluster, say: Callable[[str], None] = print) -> Process:
    """Start KubeRay's operator on its CRDs; end it with `stop`."""
    apply_crds(cluster, "ray")
    metrics, probes = RAY_PORTS
    return Process(
        "kuberay",
        [
            program("ray-operator", say),
            f"-metrics-addr={metrics}",
            f"-health-probe-bind-address={probes}",
            "-enable-leader-election=false",
        ],
        log=cluster.folder / "kuberay.log",
        environment={"KUBECONFIG": str(cluster.admin.login.kubeconfig), "PATH": os.defpath},
    ).start()
